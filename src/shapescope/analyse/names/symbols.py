"""Kernels whose name is one word: generated assembly, vendor libraries, Triton and CuTe DSL. One reader a library.

Such names carry everything between underscores; each library has its own order of types, tiles and flags.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shapescope.analyse.names.classes import classify, keeps_types
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.words import TILE, TYPES, snake, snake_words, without_architecture

Match = re.Match[str]


def _split(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split("_") if word)


def _memory(match: Match) -> Reading:
    action, rest = match[1].lower(), match[2].strip()
    kind, _, detail = rest.partition("(")
    detail = detail.rstrip(")")
    family = "_".join(["memcpy" if action == "memcpy" else "memset", *kind.split()])
    return Reading(family, (detail,) if detail else (), "copy" if action == "memcpy" else "fill")


def _driver_fill(match: Match) -> Reading:
    return Reading("driver_memset", _split(match[1]), "fill")


def _nvjet(match: Match) -> Reading:
    """`nvjet_[sm100_]tst_128x256_64x4_1x2_h_bz_coopA_TNT`: the letters are the types of A, C and D."""
    return Reading(f"nvjet_{match[2]}", _split(f"{match[1] or ''}_{match[3]}"), "gemm")


XMMA_TYPES = re.compile(
    r"^(?:tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|i32|u8|s8|s32|fp8|cf32|cf64|mxf\w+|nvf\w+|ue\w+)+$"
)
XMMA_FLAGS = frozenset({"indexed", "warp", "specialized", "ex", "cta", "nn", "nt", "tn", "tt"})


def _xmma(match: Match) -> Reading:
    words = _split(match[2])
    kinds: list[str] = []
    types: list[str] = []
    for at, word in enumerate(words):
        if XMMA_TYPES.match(word):
            types.append(word)
        elif types:
            break
        elif word not in XMMA_FLAGS:
            kinds.append(word)
    family = "_".join(["xmma", *kinds, *types])
    kept = {*kinds, *types}
    variant = tuple(word for word in words if word not in kept)
    return Reading(family, (*_split(match[1] or ""), *variant), classify(family))


MMA = re.compile(r"^([a-z]{1,2}?)(?:\d+x)*(\d*)(gemm|gemv|fprop|dgrad|wgrad|cudnn)$")
ACCUMULATORS = {
    "s": "f32",
    "h": "f16",
    "d": "f64",
    "i": "i32",
    "c": "c64",
    "z": "c128",
    "gc": "c64",
    "gz": "c128",
}
MMA_TYPES = {**TYPES, "s32": "i32", "s4": "i4", "u4": "u4", "fp16": "f16"}
DIRECTIONS = ("winograd", "dgrad", "wgrad")


def _blas(match: Match) -> Reading | None:
    """cuBLAS, cuDNN and CUTLASS 2: `[cutlass_80_tensorop_]bf16_s16816gemm_relu_bf16_128x64_..`.

    The type before the instruction is the output's, the one after it the inputs'; without both an `s1688` multiplies
    tf32, and a scalar `s` f32.
    """
    words = _split(match[0])
    at = next((i for i, word in enumerate(words) if MMA.match(word)), -1)
    if at < 0:
        return None
    instruction = MMA.match(words[at])
    assert instruction is not None
    accumulator, shape, operation = instruction.groups()
    output = MMA_TYPES.get(words[at - 1]) if at else None
    inputs = [MMA_TYPES[word] for word in words[at + 1 :] if word in MMA_TYPES]
    library = words[0] if words[0].startswith(("cutlass", "cudnn")) else "cublas"
    if operation == "cudnn":
        library = "cudnn"
    types = _blas_types(ACCUMULATORS.get(accumulator, accumulator), bool(shape), output, inputs)
    kinds = [operation.replace("cudnn", "conv"), *_conv_direction(words)]
    family = "_".join([library, *kinds, *types])
    variant = tuple(
        word for i, word in enumerate(words) if i != at and word not in MMA_TYPES and word != words[0]
    )
    instruction_tag = f"{accumulator}{shape}" if shape else ""
    return Reading(family, tuple(word for word in (instruction_tag, *variant) if word), classify(family))


def _blas_types(accumulator: str, tensor_core: bool, output: str | None, inputs: list[str]) -> list[str]:
    if not inputs and not output:
        return ["tf32" if tensor_core and accumulator == "f32" else accumulator]
    if not inputs:
        return [output or accumulator]
    if inputs == ["tf32"]:
        return inputs
    result = output or (accumulator if len(inputs) == 1 else inputs[-1])
    types = list(dict.fromkeys([*inputs[:2], result]))
    return types


def _conv_direction(words: tuple[str, ...]) -> list[str]:
    if "winograd" in words:
        return ["winograd"]
    if "stridedB" in words:
        return ["wgrad" if "splitK" in words else "dgrad"]
    return []


TENSILE_END = re.compile(
    r"^(?:BH|H?HA?S?|HAS?|HA|Bias\w*|AS|AH|UserArgs|MT\d.*|SAV|SAB|SCD|GG|Grad|CB?|Aux\w*|ABV?\w*|GB?)$"
)
TENSILE_TYPES = re.compile(r"^(?:[A-Z0-9]+[a-z]?)$")
TENSILE_HELPERS = re.compile(r"PostGSU|_GB|Beta|_GA|_Conversion|Reduction")


def _tensile(match: Match) -> Reading:
    """`Cijk_Alik_Bljk_BBS_BH_Bias_.._MT128x64x32_..`: contraction, types, then flags."""
    index, rest = match[1], _split(match[2])
    types: list[str] = []
    for word in rest:
        if TENSILE_END.match(word) or not TENSILE_TYPES.match(word):
            break
        types.append(word)
    tiles = tuple(word for word in rest if re.match(r"MT\d+x\d+", word))
    if not tiles and TENSILE_HELPERS.search(match[2]):
        return Reading(f"{index}_helper", rest, "gemm")
    return Reading(f"{index}_{''.join(types)}", tiles, "gemm")


def _trtllm_gemm(match: Match) -> Reading:
    """`bmm_E4m3_E4m3E4m3_Fp32_t128x16x128..`: types of output, inputs and accumulator; `dynB` batches by expert."""
    grouped = match[1] == "bmm" and "_dynB" in match[0]
    return Reading(f"{match[1]}_{match[2]}", _split(match[3]), "grouped_gemm" if grouped else "gemm")


def _trtllm_attention(match: Match) -> Reading:
    generation = "ForGen" in match[2]
    stage = "gen" if generation else "context" if "Context" in match[2] else ""
    return Reading("_".join(filter(None, ["trtllm_fmha", stage])), (match[1], match[2]), "attention")


REDUCE_OPERATIONS = frozenset({"Sum", "Prod", "Max", "Min", "MinMax", "PreMulSum", "SumPostDiv", "Avg"})


def _nccl(match: Match) -> Reading:
    """The collective, and the operation of one that reduces; types, algorithm and protocol are variant, in any order."""
    words = _split(match[2].partition("(")[0])
    collective = "" if words[:1] and words[0].capitalize() in REDUCE_OPERATIONS else words[0]
    operations = [word.capitalize() for word in words if word.capitalize() in REDUCE_OPERATIONS]
    if collective and "Reduce" not in collective:
        operations = []
    family = "_".join(filter(None, [match[1].lower(), collective, *operations]))
    return Reading(family, tuple(word for word in words if word != collective), "collective")


def _cudnn_generated(match: Match) -> Reading:
    words = _split(match[1])
    end = next(
        (i for i, word in enumerate(words) if re.match(r"w?g?mma|knob|\d+x\d+|f16|bf16|fp8|e4m3", word)),
        len(words),
    )
    kept, tags = without_architecture("_".join(words[:end]))
    return Reading(f"cudnn_{kept}", (*tags, *words[end:]), classify(kept))


IGEMM_TYPES = frozenset({"bf16", "fp16", "fp32", "int8"})


def _igemm(match: Match) -> Reading:
    words = _split(match[2])
    types = [word for word in words if word in IGEMM_TYPES]
    family = "_".join(["igemm", match[1], *types])
    return Reading(family, tuple(word for word in words if word not in types), "conv")


def _matmul_ogs(match: Match) -> Reading:
    """triton_kernels: `_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu`: layouts, types, tile, epilogue."""
    family = "_".join([snake(match[1]), match[3]]) if match[3] else snake(match[1])
    return Reading(family, _split(f"{match[2] or ''}_{match[4]}"), "grouped_gemm")


AITER_FLAG = re.compile(
    r"^(?:g1u[01]|no?vs|vs|silu|gelu|flat|[12348]tg|\d+w|ps|pf\d?|\w?causal|a16|a32|psskk?|pssk|pddv|rtn[aez]|rtz|brd|hd\d+|d\d+|hdim\d*"
    r"|gqa\d+\w*|mtp\d*|msk\d|qh\d+|kvh?\d+|page\d+|ps\d+|recomp|atomic\d*|group|batch|swa|sink\w*|B?preShuffle|nobias|bias|splitk|clean"
    r"|multix|blk\w*|smf|subGU\w*|noprefetch|tn|nt|nn|m\d+|n\d+|x\d+|\d+)$",
    re.IGNORECASE,
)
AITER_TYPE = re.compile(r"^(?:bf16|fp16|f16|fp32|a\d+w\d+|i8|int8|fp8)$")


def _aiter(match: Match) -> Reading:
    """aiter's assembly: operation, types, then flags and tile. Types stay for products only."""
    namespace, words = match[1] or "", _split(match[2])
    operation = words[0]
    kernel_class = classify(snake(match[2]))
    typed = keeps_types(kernel_class, operation)
    kept = [
        word
        for word in words
        if not TILE.match(word) and not AITER_FLAG.match(word) and (typed or not AITER_TYPE.match(word))
    ]
    kept, tags = _without_tags(kept)
    family = "_".join(["aiter", *kept])
    return Reading(family, tuple(word for word in words if word not in kept), kernel_class)


def _without_tags(words: list[str]) -> tuple[list[str], list[str]]:
    kept, tags = without_architecture("_".join(words))
    return list(_split(kept)), tags


CUTE_TYPES = re.compile(
    r"_?(?:object_at_|tensorptr|tensor0|TiledMMA|TiledCopy|Tiled_?Copy|CopyAtom|ThrLayout|Tensorgmem|ptr(?:bf16|f16|f32|i32|f8)|\(?0xX).*",
    re.DOTALL,
)
CUTE_PREFIX = re.compile(r"^(?:kernel_)?cutlass_+(?:kernel_)?")


def _cute_dsl(match: Match) -> Reading:
    """CuTe DSL: module path and class run together, then the address-free types of all arguments."""
    name = match[0]
    cut = CUTE_TYPES.search(name)
    head, rest = (name[: cut.start()], name[cut.start() :]) if cut else (name, "")
    kept, tags = without_architecture(CUTE_PREFIX.sub("", head))
    family = f"cutedsl_{snake(kept)}"
    return Reading(family, (*tags, *_split(rest)), classify(snake(kept)))


FMHA_FLAG = re.compile(
    r"^(?:aligned|notaligned|rf|smem|seqaligned|dropout|k\d+|S|\d+|sm\d+|nl|tiled|ws|kernel|causal|sliding|or|chunked|custom|mask|softcapping|output|\d+x\d+)$"
)


def _fmha(match: Match) -> Reading:
    """PyTorch's memory-efficient `fmha_cutlassF_bf16_aligned_64x64_rf_sm80`, TensorRT-LLM's `fmha_v2_..`."""
    words = _split(match[0].partition("(")[0])
    kept = [word for word in words if not FMHA_FLAG.match(word) and word not in TYPES]
    return Reading("_".join(kept), tuple(word for word in words if word not in kept), "attention")


Reader = Callable[[Match], Reading | None]
READERS: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (r"^(Memcpy|Memset)\b(.*)$", _memory),
        (r"^memset(\d+\w*)$", _driver_fill),
        (r"^nvjet_(sm\d+[af]?_)?([a-z]+)_(\w+)$", _nvjet),
        (r"^(sm\d+_)?xmma_(\w+)", _xmma),
        (r"^(?:Custom_)?(Cijk_A[a-z]+_B[a-z]+)_(\w+)", _tensile),
        (r"^(Cijk)_(\w+)", _tensile),
        (r"^(bmm|gemm)_((?:Bfloat16|Fp16|Fp32|E4m3|E5m2|E2m1|Mx\w+?|Nv\w+?)_[A-Za-z0-9]+_[A-Za-z0-9]+)_(\w+)$", _trtllm_gemm),
        (r"^fmha(Sm\d+[af]?)Kernel_?(\w*)", _trtllm_attention),
        (r"^(nccl|msccl|rccl)(?:Sym[a-z]*)?(?:Dev)?(?:Kernel|Func)_?(\w.*)$", _nccl),
        (r"^cudnn_generated_(?:fort_native_|oss_)?(\w+)$", _cudnn_generated),
        (r"^igemm_(fwd|bwd|wrw|wgrad|upd)_(\w+)$", _igemm),
        (r"^(_?p?_?matmul(?:_ogs)?)_([NT]{3})_([a-z0-9]+(?:x[a-z0-9]+)+)_(\w+)$", _matmul_ogs),
        (r"^(?:kernel_)?cutlass_+(?:kernel|\w*_object_at_|\w*TiledMMA|\w*tensorptr|\w*tensor0)\w*", _cute_dsl),
        (r"^fmha_(?:cutlass|v2)\w*", _fmha),
        (r"^(aiter::)?((?:fmoe|fmha_(?:fwd|bwd)|pa|mla|[a-z]*\d*gemm|flatmm|moe)_\w+)$", _aiter),
        (r"^\w*(?:gemm|fprop|dgrad|wgrad|cudnn)(?:_\w+)?$", _blas),
    )
)  # fmt: skip

FUSION_COUNTER = re.compile(r"(?:_|\.)?\d+$")
TRITON_SIGNATURE = re.compile(r"_0d?1d?(?:\d+|[dec])*$")
HASH = re.compile(r"^(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}$")
PLAIN_TYPES = frozenset(
    {
        "bf16",
        "fp16",
        "f16",
        "fp32",
        "f32",
        "float",
        "half",
        "bfloat16",
        "float16",
        "float32",
        "float64",
        "double",
    }
)


def read(name: str) -> Reading | None:
    """The reading of a one-word name by the first library that knows it, else by its words; None for C++."""
    for pattern, reader in READERS:
        match = pattern.match(name)
        reading = reader(match) if match else None
        if reading is not None:
            return reading
    return _words(name) if re.match(r"^[\w.$@-]+$", name) else None


def _words(name: str) -> Reading:
    """Any other word: without tiles, architecture, hashes, trailing counters, and types where they make no family."""
    signature = TRITON_SIGNATURE.search(name)
    bare = name[: signature.start()] if signature else name
    counter = FUSION_COUNTER.search(bare) if re.search(r"[a-z_]_\d+$|fusion_?\d*$", bare) else None
    bare = bare[: counter.start()] if counter else bare
    kept, tags = without_architecture(bare)
    kernel_class = classify(snake(kept))
    typed = keeps_types(kernel_class, snake(kept)) or kernel_class in ("quant", "copy")
    removed = [
        word
        for word in _split(kept)
        if TILE.match(word) or HASH.match(word) or (not typed and word.lower() in PLAIN_TYPES)
    ]
    plain = "_".join(word for word in kept.split("_") if word not in removed)
    family = plain if kernel_class == "other" else "_".join(snake_words(plain))
    tail = [counter[0].strip("_.")] if counter else []
    extra = [signature[0].strip("_")] if signature else []
    return Reading(family or name, (*removed, *tags, *tail, *extra), kernel_class)
