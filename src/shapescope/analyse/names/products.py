"""Generated products and convolutions whose name is one word: nvjet, xmma, cuBLAS, Tensile, trtllm-gen ..

Their types belong to the family, as the library writes them, inputs and output; tiles, layouts, instruction,
architecture and flags are variant. Each library has its own order of them.
"""

from __future__ import annotations

import re

from shapescope.analyse.names.classes import classify
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.words import TYPES, snake, split

Match = re.Match[str]

XMMA_TYPES = re.compile(r"^(?:(?:tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|i32|u8|s8|s32|fp8|cf32|cf64)+|(?:mxf|nvf|ue)\w+)$")
XMMA_FLAGS = frozenset({"indexed", "warp", "specialized", "ex", "cta", "nn", "nt", "tn", "tt"})

MMA = re.compile(r"^([a-z]{1,2}?)(\d*)(?:x\d+x\d+)?(gemm|gemv|fprop|dgrad|wgrad|cudnn)$")
ACCUMULATORS = {"s": "f32", "h": "f16", "d": "f64", "i": "i32", "c": "c64", "z": "c128", "gc": "c64"}
MMA_TYPES = {**TYPES, "s32": "i32", "s4": "i4", "u4": "u4"}

TENSILE_TYPES = re.compile(r"^[A-Z0-9]+[a-z]?$")
TENSILE_FLAGS = re.compile(
    r"^(?:BH|HH?A|HAS|HA|Bias\w*|AS|AH|UserArgs|MT\d.*|SAV|SAB|SCD|GG|Grad|C|CB|Aux\w*|ABV?\w*|GB?)$"
)
TENSILE_TILE = re.compile(r"^MT\d+x\d+")
TENSILE_HELPER = re.compile(r"PostGSU|_GB|Beta|_GA|_Conversion|Reduction")

TRTLLM_TYPE = r"(?:Bfloat16|Fp16|Fp32|E\dm\d|Mx[A-Za-z0-9]+|Nv[A-Za-z0-9]+)"
IGEMM_TYPES = frozenset({"bf16", "fp16", "fp32", "int8"})


def nvjet(match: Match) -> Reading:
    """`nvjet_[sm100_]tst_128x256_64x4_1x2_h_bz_coopA_TNT`: the letters are the types of the operands."""
    return Reading(f"nvjet_{match[2]}", split(f"{match[1] or ''}_{match[3]}"), "gemm")


def xmma(match: Match) -> Reading:
    """`sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize..`: operation, then three words of types."""
    words = split(match[2])
    operation: list[str] = []
    types: list[str] = []
    for word in words:
        if XMMA_TYPES.match(word):
            types.append(word)
        elif types:
            break
        elif word not in XMMA_FLAGS:
            operation.append(word)
    kept = [*operation, *types]
    family = "_".join(["xmma", *kept])
    variant = (*split(match[1] or ""), *(word for word in words if word not in kept))
    return Reading(family, variant, classify(family))


def blas(match: Match) -> Reading | None:
    """cuBLAS, cuDNN and CUTLASS 2: `[cutlass_80_tensorop_]bf16_s16816gemm_relu_bf16_128x64_..`."""
    words = split(match[0])
    found = next(((at, mma) for at, word in enumerate(words) if (mma := MMA.match(word))), None)
    if found is None:
        return None
    at, mma = found
    accumulator, shape, operation = mma.groups()
    output = MMA_TYPES.get(words[at - 1], "") if at else ""
    inputs = [MMA_TYPES[word] for word in words[at + 1 :] if word in MMA_TYPES]
    types = _operand_types(ACCUMULATORS.get(accumulator, accumulator), bool(shape), output, inputs)
    named = words[0].startswith(("cutlass", "cudnn"))
    library = "cudnn" if operation == "cudnn" else words[0] if named else "cublas"
    kinds = [operation.replace("cudnn", "conv"), *_direction(words)]
    variant = [word for place, word in enumerate(words[named:], named) if place != at and word not in MMA_TYPES]
    instruction = [f"{accumulator}{shape}"] if shape else []
    return Reading("_".join([library, *kinds, *types]), (*instruction, *variant), classify("_".join(kinds)))


def _operand_types(accumulator: str, tensor_core: bool, output: str, inputs: list[str]) -> list[str]:
    """The type before the instruction is the output's, the one after it the inputs'.

    Without both, an `s1688` multiplies tf32 and a scalar `s` f32; tf32 always writes f32 and stands alone.
    """
    if not inputs:
        return [output or ("tf32" if tensor_core and accumulator == "f32" else accumulator)]
    if inputs == ["tf32"]:
        return inputs
    result = output or (accumulator if len(inputs) == 1 else inputs[-1])
    return list(dict.fromkeys([*inputs[:2], result]))


def _direction(words: tuple[str, ...]) -> list[str]:
    """cuDNN's `scudnn` tells the direction by its strides."""
    if "winograd" in words:
        return ["winograd"]
    if "stridedB" in words:
        return ["wgrad" if "splitK" in words else "dgrad"]
    return []


def tensile(match: Match) -> Reading:
    """`Cijk_Alik_Bljk_BBS_BH_Bias_.._MT128x64x32_..`: contraction, types (also as `B_BS`), then flags."""
    words = split(match[2])
    types: list[str] = []
    for word in words:
        if TENSILE_FLAGS.match(word) or not TENSILE_TYPES.match(word):
            break
        types.append(word)
    tiles = tuple(word for word in words if TENSILE_TILE.match(word))
    if not tiles and TENSILE_HELPER.search(match[0]):
        return Reading(f"{match[1]}_helper", words, "gemm")
    return Reading(f"{match[1]}_{''.join(types)}", tiles, "gemm")


def trtllm(match: Match) -> Reading:
    """`bmm_E4m3_E4m3E4m3_Fp32_t128x16x128..`: output, inputs, accumulator; `dynB` batches by expert."""
    grouped = match[1] == "bmm" and "_dynB" in match[3]
    return Reading(f"{match[1]}_{match[2]}", split(match[3]), "grouped_gemm" if grouped else "gemm")


def igemm(match: Match) -> Reading:
    """MIOpen's `igemm_fwd_gtcx3_nhwc_bf16_bx0_..`: direction, instruction, layout, type."""
    words = split(match[2])
    types = [word for word in words if word in IGEMM_TYPES]
    family = "_".join(["igemm", match[1], *types])
    return Reading(family, tuple(word for word in words if word not in types), "conv")


def matmul_ogs(match: Match) -> Reading:
    """triton_kernels: `_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1`: layouts, types, tile, epilogue."""
    return Reading(f"{snake(match[1])}_{match[3]}", (match[2], *split(match[4])), "grouped_gemm")


READERS = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (r"^nvjet_(sm\d+[af]?_)?([a-z]+)_(\w+)$", nvjet),
        (r"^(sm\d+_)?xmma_(\w+)", xmma),
        (r"^(?:Custom_)?(Cijk_A[a-z]+_B[a-z]+)_(\w+)", tensile),
        (r"^(Cijk)_(\w+)", tensile),
        (rf"^(bmm|gemm)_({TRTLLM_TYPE}_[A-Za-z0-9]+_[A-Za-z0-9]+)_(\w+)$", trtllm),
        (r"^igemm_(fwd|bwd|wrw|upd)_(\w+)$", igemm),
        (r"^(_?p?_?matmul(?:_ogs)?)_([NT]{3})_([a-z0-9]+x[a-z0-9]+)_(\w+)$", matmul_ogs),
    )
)  # fmt: skip
# Tried last, because other libraries' names end in the same words.
BLAS = re.compile(r"^\w*(?:gemm|fprop|dgrad|wgrad|cudnn)(?:_\w+)?$")
