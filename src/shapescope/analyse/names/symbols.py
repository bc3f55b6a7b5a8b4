"""Kernels whose name is one word: generated assembly, vendor libraries, Triton and CuTe DSL.

Such names carry everything between underscores. A library that has an order of its own has a reader; all
others are read word by word.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shapescope.analyse.names import products
from shapescope.analyse.names.classes import classify, keeps_types
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.words import TYPES, snake, snake_words, split, without_architecture

Match = re.Match[str]
Reader = Callable[[Match], Reading | None]

REDUCTIONS = frozenset({"Sum", "Prod", "Max", "Min", "MinMax", "PreMulSum", "SumPostDiv", "Avg"})

CUDNN_VARIANT = re.compile(r"w?g?mma|knob|\d+x\d+|f16|bf16|fp8|e4m3")

AITER_FLAG = re.compile(
    r"^(?:g1u[01]|no?vs|vs|silu|gelu|flat|[12348]tg|\d+w|ps|pf\d?|\w?causal|a16|a32|psskk?|pssk|pddv|rtn[aez]|rtz"
    r"|brd|hd\d+|d\d+|hdim\d*|gqa\d+\w*|mtp\d*|msk\d|qh\d+|kvh?\d+|page\d+|ps\d+|recomp|atomic\d*|group|batch|swa"
    r"|sink\w*|B?preShuffle|nobias|bias|splitk|clean|multix|blk\w*|smf|subGU\w*|noprefetch|tn|nt|nn|[mnx]\d+|\d+)$",
    re.IGNORECASE,
)
AITER_TYPE = re.compile(r"^(?:bf16|fp16|f16|fp32|a\d+w\d+|i8|int8|fp8)$")

CUTE_TYPES = re.compile(
    r"_?(?:object_at_|tensorptr|tensor0|Tiled_?MMA|Tiled_?Copy|CopyAtom|ThrLayout|Tensorgmem|ptr(?:bf16|f16|f32|i32|f8)"
    r"|\(?0xX)"
)
CUTE_PREFIX = re.compile(r"^(?:kernel_)?cutlass_+(?:kernel_)?")

FMHA_FLAG = re.compile(
    r"^(?:aligned|notaligned|rf|smem|seqaligned|dropout|k\d+|S|\d+|sm\d+|nl|tiled|ws|kernel|causal|sliding|or|chunked"
    r"|custom|mask|softcapping|output|\d+x\d+)$"
)

MEMORY = re.compile(r"^(Memcpy|Memset)\b(.*)$")
# No library names a kernel in a longer word.
MAX_WORD = 4096
ONE_WORD = re.compile(r"^[\w.$@-]+$")
TILE = re.compile(r"^[a-zA-Z]{0,4}\d+(?:x\d+)+$")
COUNTER = re.compile(r"(?<=[a-z_])_\d+$|(?<=fusion)[_.]?\d+$")
TRITON_SIGNATURE = re.compile(r"_0d?1d?[\ddec]*$")
HASH = re.compile(r"^(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}$")
PLAIN_TYPES = frozenset({"bf16", "fp16", "f16", "fp32", "f32", "float", "half", "bfloat16", "float16", "float32"})
# Classes whose types tell one operation from another: quantisation from what to what, casts likewise.
CONVERTING = frozenset({"quant", "copy"})


def read(name: str) -> Reading | None:
    """The reading of a one-word name by the first library that knows it, else by its words; None for C++."""
    memory = MEMORY.match(name)
    if memory:
        return _memory(memory)
    # Some tools append the parameters to an unmangled name.
    word = name.partition("(")[0].removeprefix("aiter::")
    if not ONE_WORD.match(word):
        return None
    if len(word) > MAX_WORD:
        return Reading(name)
    for pattern, reader in READERS:
        match = pattern.match(word)
        reading = reader(match) if match else None
        if reading is not None:
            return reading
    return _words(word)


def _memory(match: Match) -> Reading:
    """`Memcpy DtoH (Device -> Host)`, `Memset (Device)`."""
    kind, _, detail = match[2].strip().partition("(")
    family = "_".join([match[1].lower(), *kind.split()])
    detail = detail.rstrip(")")
    return Reading(family, (detail,) if detail else (), "copy" if match[1] == "Memcpy" else "fill")


def _driver_fill(match: Match) -> Reading:
    return Reading("driver_memset", (match[1],), "fill")


def _trtllm_attention(match: Match) -> Reading:
    """`fmhaSm100fKernel_Qkv..PersistentContext`: all flags run together; context or generation stays."""
    stage = "_gen" if "ForGen" in match[2] else "_context" if "Context" in match[2] else ""
    return Reading(f"trtllm_fmha{stage}", (match[1], match[2]), "attention")


def _nccl(match: Match) -> Reading:
    """The collective, and the operation of one that reduces; the rest, in old or new order, is variant."""
    words = split(match[2])
    collective = "" if not words or words[0].capitalize() in REDUCTIONS else words[0]
    operations = [word.capitalize() for word in words if word.capitalize() in REDUCTIONS]
    if collective and "Reduce" not in collective:
        operations = []
    family = "_".join(filter(None, [match[1].lower(), collective, *operations]))
    return Reading(family, tuple(word for word in words if word != collective), "collective")


def _cudnn_generated(match: Match) -> Reading:
    """`cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_..`: from the instruction on, all varies."""
    words = split(match[1])
    end = next((at for at, word in enumerate(words) if CUDNN_VARIANT.match(word)), len(words))
    kept, tags = without_architecture("_".join(words[:end]))
    return Reading(f"cudnn_{kept}", (*tags, *words[end:]), classify(kept))


def _aiter(match: Match) -> Reading:
    """aiter's assembly: operation, types, then flags and tile. Types stay for products only."""
    words = split(match[1])
    kernel_class = classify(snake(match[1]))
    typed = keeps_types(kernel_class, words[0])
    named = [
        word
        for word in words
        if not TILE.match(word) and not AITER_FLAG.match(word) and (typed or not AITER_TYPE.match(word))
    ]
    kept = split(without_architecture("_".join(named))[0])
    return Reading("_".join(["aiter", *kept]), tuple(word for word in words if word not in kept), kernel_class)


def _cute_dsl(match: Match) -> Reading:
    """CuTe DSL: module path and class run together, then the types of all arguments."""
    cut = CUTE_TYPES.search(match[0])
    end = cut.start() if cut else len(match[0])
    kept, tags = without_architecture(CUTE_PREFIX.sub("", match[0][:end]))
    words = snake(kept)
    return Reading(f"cutedsl_{words}", (*tags, *split(match[0][end:])), classify(words))


def _fmha(match: Match) -> Reading:
    """PyTorch's memory-efficient `fmha_cutlassF_bf16_aligned_64x64_rf_sm80`, TensorRT-LLM's `fmha_v2_..`."""
    words = split(match[0])
    kept = [word for word in words if not FMHA_FLAG.match(word) and word not in TYPES]
    return Reading("_".join(kept), tuple(word for word in words if word not in kept), "attention")


def _words(name: str) -> Reading:
    """Any other word: no tiles, architecture, hashes and counters, and no types where they make no family."""
    signature = TRITON_SIGNATURE.search(name)
    bare = name[: signature.start()] if signature else name
    counter = COUNTER.search(bare)
    bare = bare[: counter.start()] if counter else bare
    kept, tags = without_architecture(bare)
    kernel_class = classify(snake(kept))
    typed = kernel_class in CONVERTING or keeps_types(kernel_class, snake(kept))
    removed = [
        word
        for word in split(kept)
        if TILE.match(word) or HASH.match(word) or (word.lower() in PLAIN_TYPES and not typed)
    ]
    plain = "_".join(word for word in kept.split("_") if word not in removed)
    family = plain if kernel_class == "other" else "_".join(snake_words(plain))
    ends = [end[0].strip("_.") for end in (counter, signature) if end]
    return Reading(family or name, (*removed, *tags, *ends), kernel_class)


READERS: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (re.compile(r"^memset(\d+\w*)$"), _driver_fill),
    *products.READERS,
    (re.compile(r"^fmha(Sm\d+[af]?)Kernel_?(\w*)"), _trtllm_attention),
    (re.compile(r"^(nccl|msccl|rccl)(?:Sym[a-z]*)?(?:Dev)?(?:Kernel|Func)_?(\w.*)$"), _nccl),
    (re.compile(r"^cudnn_generated_(?:fort_native_|oss_)?(\w+)$"), _cudnn_generated),
    (
        re.compile(r"^(?:kernel_)?cutlass_+(?:kernel|\w*(?:_object_at_|TiledMMA|tensorptr|tensor0))\w*"),
        _cute_dsl,
    ),
    (re.compile(r"^fmha_(?:cutlass|v2)\w*"), _fmha),
    (re.compile(r"^((?:fmoe|fmha_(?:fwd|bwd)|pa|mla|[a-z]*\d*gemm|flatmm|moe)_\w+)$"), _aiter),
    (products.BLAS, products.blas),
)
