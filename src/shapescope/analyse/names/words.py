"""Words inside kernel names: snake_case, data types, architecture tags. Facts shared by all readers."""

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

ARCHITECTURE = re.compile(
    r"^(?:sm_?\d{2,3}[af]?|smxx|compute_?\d{2,3}|gfx\d+[a-z0-9]*|gtcx\d|isa\d+\w?|mi\d{3}x?"
    r"|kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)$",
    re.IGNORECASE,
)
CAMEL_ARCHITECTURE = re.compile(r"S[mM]\d{2,3}[af]?(?![a-z0-9])")

SPELLINGS = {
    "f64": "double fp64 f64",
    "f32": "float fp32 f32",
    "tf32": "tfloat32_t tf32",
    "f16": "half __half Half half_t _Float16 f16 fp16",
    "bf16": """bfloat16 BFloat16 __nv_bfloat16 nv_bfloat16 __hip_bfloat16 hip_bfloat16 bfloat16_t __bf16 bf16
        bf16_t""",
    "f16x2": "__half2 half2",
    "bf16x2": "__nv_bfloat162 nv_bfloat162",
    "f32x2": "float2",
    "f32x4": "float4",
    "e4m3": """__nv_fp8_e4m3 Float8_e4m3fn Float8_e4m3fnuz float_e4m3_t __hip_fp8_e4m3_fnuz __hip_fp8_e4m3
        e4m3""",
    "e5m2": "__nv_fp8_e5m2 Float8_e5m2 Float8_e5m2fnuz float_e5m2_t e5m2",
    "fp8": "fp8_t fp8 f8 f8_t",
    "e2m1": "__nv_fp4_e2m1 float_e2m1_t e2m1 Float4_e2m1fn_x2 pk_fp4_t",
    "ue4m3": "float_ue4m3_t",
    "ue8m0": "float_ue8m0_t Float8_e8m0fnu",
    "i4": "int4b_t pk_int4_t",
    "u4": "uint4b_t",
    "b8": "bool",
    "i8": "char int8_t int8 i8 s8",
    "u8": "uint8_t u8",
    "i16": "short int16_t",
    "i32": "int int32_t i32",
    "u32": "unsigned uint32_t",
    "i64": "long int64_t i64",
    "u64": "uint64_t size_t",
}
TYPES = {spelling: kind for kind, spellings in SPELLINGS.items() for spelling in spellings.split()} | {
    "signed char": "i8",
    "unsigned char": "u8",
    "unsigned short": "u16",
    "unsigned int": "u32",
    "long long": "i64",
    "unsigned long": "u64",
    "unsigned long long": "u64",
}
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


def split(text: str) -> tuple[str, ...]:
    """The words between underscores."""
    return tuple(word for word in text.split("_") if word)


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
    words = list(split(snake(text)))
    return [word for word in words if word != "kernel"] or words
