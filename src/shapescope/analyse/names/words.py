"""Words inside kernel names: snake_case, data types, tiles, architecture tags. Facts shared by all readers."""

from __future__ import annotations

import re

from shapescope.analyse.names.syntax import LAMBDA, Name

BRANDS = (
    ("MoE", "Moe"),
    ("RoPE", "Rope"),
    ("TopK", "Topk"),
    ("AllReduce", "Allreduce"),
    ("SoftMax", "Softmax"),
)
LOWER_UPPER = re.compile(r"([a-z0-9])([A-Z])")
ACRONYM = re.compile(r"([A-Z])([A-Z][a-z])")
UNDERSCORES = re.compile(r"_+")

TILE = re.compile(r"^[a-zA-Z]{0,4}\d+(?:x\d+)+$")
ARCHITECTURE = re.compile(
    r"^(?:sm_?\d{2,3}[af]?|smxx|compute_?\d{2,3}|gfx\d+[a-z0-9]*|gtcx\d|isa\d+\w?|mi\d{3}x?"
    r"|kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)$",
    re.IGNORECASE,
)
CAMEL_ARCHITECTURE = re.compile(r"S[mM]\d{2,3}[af]?(?![a-z0-9])")

TYPES = {
    "float": "f32", "f32": "f32", "fp32": "f32", "double": "f64", "fp64": "f64", "f64": "f64",
    "half": "f16", "__half": "f16", "Half": "f16", "half_t": "f16", "_Float16": "f16", "f16": "f16", "fp16": "f16",
    "__half2": "f16x2", "half2": "f16x2", "float2": "f32x2", "float4": "f32x4",
    "bfloat16": "bf16", "BFloat16": "bf16", "__nv_bfloat16": "bf16", "__hip_bfloat16": "bf16", "hip_bfloat16": "bf16",
    "bfloat16_t": "bf16", "__bf16": "bf16", "bf16": "bf16", "bf16_t": "bf16", "nv_bfloat16": "bf16",
    "__nv_bfloat162": "bf16x2", "nv_bfloat162": "bf16x2", "tfloat32_t": "tf32", "tf32": "tf32",
    "__nv_fp8_e4m3": "e4m3", "Float8_e4m3fn": "e4m3", "Float8_e4m3fnuz": "e4m3", "float_e4m3_t": "e4m3",
    "__hip_fp8_e4m3_fnuz": "e4m3", "__hip_fp8_e4m3": "e4m3", "e4m3": "e4m3",
    "__nv_fp8_e5m2": "e5m2", "Float8_e5m2": "e5m2", "Float8_e5m2fnuz": "e5m2", "float_e5m2_t": "e5m2", "e5m2": "e5m2",
    "fp8_t": "fp8", "fp8": "fp8", "f8": "fp8", "__nv_fp4_e2m1": "e2m1", "float_e2m1_t": "e2m1", "e2m1": "e2m1",
    "Float4_e2m1fn_x2": "e2m1", "pk_fp4_t": "e2m1", "float_ue4m3_t": "ue4m3", "float_ue8m0_t": "ue8m0",
    "Float8_e8m0fnu": "ue8m0", "int4b_t": "i4", "uint4b_t": "u4", "pk_int4_t": "i4",
    "bool": "b8", "char": "i8", "signed char": "i8", "int8_t": "i8", "int8": "i8", "i8": "i8", "s8": "i8",
    "unsigned char": "u8", "uint8_t": "u8", "u8": "u8", "short": "i16", "int16_t": "i16", "unsigned short": "u16",
    "int": "i32", "int32_t": "i32", "i32": "i32", "unsigned int": "u32", "unsigned": "u32", "uint32_t": "u32",
    "long": "i64", "long long": "i64", "int64_t": "i64", "i64": "i64", "unsigned long": "u64", "unsigned long long": "u64",
    "uint64_t": "u64", "size_t": "u64", "ck_bfloat16_t": "bf16", "half_raw": "f16",
}  # fmt: skip
COMPUTE_TYPES = frozenset(
    {
        "f64",
        "f32",
        "tf32",
        "f16",
        "bf16",
        "e4m3",
        "e5m2",
        "fp8",
        "e2m1",
        "ue4m3",
        "ue8m0",
        "i8",
        "u8",
        "i4",
        "u4",
    }
    | {"u16", "f16x2", "bf16x2", "f32x2", "c64", "c128"}
)


def snake(identifier: str) -> str:
    """`FusedAddRMSNormKernel` as `fused_add_rms_norm_kernel`; one underscore between words, none outside."""
    for written, plain in BRANDS:
        identifier = identifier.replace(written, plain)
    spaced = LOWER_UPPER.sub(r"\1_\2", ACRONYM.sub(r"\1_\2", identifier))
    return UNDERSCORES.sub("_", spaced).strip("_").lower()


def without_architecture(identifier: str) -> tuple[str, list[str]]:
    """The identifier without `sm90`, `Sm100f`, `ampere` ..; and the tags that were taken out."""
    removed = CAMEL_ARCHITECTURE.findall(identifier)
    words = CAMEL_ARCHITECTURE.sub("", identifier).split("_")
    removed += [word for word in words if ARCHITECTURE.match(word)]
    return "_".join(word for word in words if not ARCHITECTURE.match(word)), removed


def data_type(name: Name) -> str:
    """The short name of an element type (`bf16`, `i64`, `opaque8`), or nothing for any other name."""
    identifier = name.identifier
    if identifier == "OpaqueType" and name.arguments:
        return f"opaque{name.arguments[0].value}"
    if identifier == "complex" and name.arguments:
        return {"f32": "c64", "f64": "c128", "f16": "c32"}.get(data_type(name.arguments[0]), "complex")
    return "" if identifier == LAMBDA else TYPES.get(identifier, "")


def snake_words(text: str) -> list[str]:
    """The words of an identifier, in snake_case and without the word `kernel`, which tools add and drop."""
    words = [word for word in snake(text).split("_") if word]
    return [word for word in words if word != "kernel"] or words
