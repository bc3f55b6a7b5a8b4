"""What the spans of engines say: steps of serving, and the captures of graphs.

The dialects are those of SGLang, vLLM, ATOM and patched builds of them; a step keeps requests and tokens apart, because
which of the two a graph's size counts is known only from the capture.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from functools import lru_cache

from shapescope.model import GraphKey, Phase, Shape, Unit


@dataclass(frozen=True, slots=True)
class Work:
    """Sums over the requests of one group in a step: query lengths, key-value lengths, and sums of their products."""

    requests: int | None = None
    sq: int | None = None
    sk: int | None = None
    sqsq: int | None = None
    sqsk: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of serving. `padded_size` is the captured size, in `unit`, where the span states it."""

    text: str
    mode: Phase
    unit: Unit
    requests: int | None
    tokens: int | None
    padded_size: int | None = None
    eager: bool = False
    context: Work = Work()
    generation: Work = Work()

    @property
    def real_size(self) -> int | None:
        return self.size_in(self.unit)

    @property
    def stated(self) -> int:
        """How many figures the span states."""
        groups = (*astuple(self.context), *astuple(self.generation))
        return sum(figure is not None for figure in (self.requests, self.tokens, self.padded_size, *groups))

    def size_in(self, unit: Unit) -> int | None:
        """How large the batch is, counted in requests or in tokens; None where the span does not say."""
        return self.requests if unit is Unit.REQUESTS else self.tokens


_MODES = {
    "DECODE": Phase.DECODE,
    "VERIFY": Phase.VERIFY,
    "TARGET_VERIFY": Phase.VERIFY,
    "DRAFT": Phase.DRAFT,
    "DRAFT_DECODE": Phase.DRAFT,
    "DRAFT_EXTEND": Phase.DRAFT_EXTEND,
    "DRAFT_EXTEND_V2": Phase.DRAFT_EXTEND,
    "EXTEND": Phase.PREFILL,
    "PREFILL": Phase.PREFILL,
    "SPLIT_PREFILL": Phase.PREFILL,
    "MIXED": Phase.MIXED,
}
_CONTEXT_MODES = (Phase.PREFILL, Phase.MIXED)
_BRACKETS = re.compile(r"(?P<word>step|(?:eager_)?(?:decode|prefill|mixed|verify|draft))\[(?P<body>.*)\]\s*", re.DOTALL)
_FIELD = re.compile(r"(\w+)=(\d+)(?:/(\d+))?(?=\s|$)")
_SUMS = r"(?:sq(?P<{0}_sq>\d+)sk(?P<{0}_sk>\d+)sqsq(?P<{0}_sqsq>\d+)sqsk(?P<{0}_sqsk>\d+)|(?P<{0}_tokens>\d+)(?:_\d+)?)"
_EXECUTE = re.compile(
    rf"execute_(?:(?P<total>\d+)_)?context_(?P<c>\d+)\({_SUMS.format('c')}\)_generation_(?P<g>\d+)\({_SUMS.format('g')}\)"
)


@lru_cache(maxsize=65536)
def parse_step(text: str) -> Step | None:
    """Read a step span of any known dialect; None for a span that is not a step."""
    if brackets := _BRACKETS.fullmatch(text):
        return _bracketed(text, brackets["word"], brackets["body"])
    if execute := _EXECUTE.fullmatch(text.strip()):
        return _executed(text, execute)
    return None


def _bracketed(text: str, word: str, body: str) -> Step | None:
    """`step[DECODE bs=64 g_sq=128 ..]` and `decode[bs=117/128 tok=117 d=117 ..]`."""
    eager = word.startswith("eager_")
    mode_word, _, rest = body.partition(" ") if word == "step" else (word.removeprefix("eager_"), "", body)
    mode = _MODES.get(mode_word.upper(), Phase.OTHER)
    fields = {name: (int(real), int(padded) if padded else None) for name, real, padded in _FIELD.findall(rest)}
    if not fields and (word != "step" or mode is Phase.OTHER):
        return None
    value = {name: real for name, (real, _) in fields.items()}
    requests, padded = fields.get("bs", (None, None))
    if word != "step" and value.get("p") and value.get("d"):
        mode = Phase.MIXED
    tokens = _tokens(mode, requests, value)
    unit = Unit.TOKENS if mode in _CONTEXT_MODES else Unit.REQUESTS
    return Step(
        text, mode, unit, requests, tokens,
        padded_size=padded,
        eager=eager,
        context=_work(value, "c", requests if mode is Phase.PREFILL else value.get("p")),
        generation=_work(value, "g", None if mode in _CONTEXT_MODES else requests),
    )  # fmt: skip


def _tokens(mode: Phase, requests: int | None, value: dict[str, int]) -> int | None:
    stated = value.get("toks", value.get("tok"))
    if stated is not None:
        return stated
    queries = [value[name] for name in ("c_sq", "g_sq", "sq") if name in value]
    if queries:
        return sum(queries)
    # One token a request is certain only of a plain decode step.
    return requests if mode is Phase.DECODE else None


def _work(value: dict[str, int], group: str, requests: int | None) -> Work:
    """The sums of one group, `c` (context) or `g` (generation); ATOM names no group, and means all where it mixes two."""
    mixed = value.get("p") and value.get("d")
    plain = requests is not None and not mixed and not any(name.startswith(("c_", "g_")) for name in value)
    sums = {
        name: value.get(f"{group}_{name}", value.get(name) if plain else None) for name in ("sq", "sk", "sqsq", "sqsk")
    }
    return Work(value.get(group, requests), **sums)


def _executed(text: str, match: re.Match[str]) -> Step:
    """`execute_[<total>_]context_<requests>(<sums>)_generation_<requests>(<sums>)`."""
    context, generation = (_executed_group(match, group) for group in ("c", "g"))
    requests = (context.requests or 0) + (generation.requests or 0)
    tokens = (context.sq or 0) + (generation.sq or 0)
    with_context = Phase.MIXED if generation.requests else Phase.PREFILL
    mode = with_context if context.requests else Phase.DECODE
    unit = Unit.REQUESTS if mode is Phase.DECODE else Unit.TOKENS
    return Step(text, mode, unit, requests, tokens, context=context, generation=generation)


def _executed_group(match: re.Match[str], group: str) -> Work:
    sums = {
        name: int(match[f"{group}_{name}"]) if match[f"{group}_{name}"] else None
        for name in ("sq", "sk", "sqsq", "sqsk")
    }
    if match[f"{group}_tokens"] is not None:
        sums["sq"] = int(match[f"{group}_tokens"])
    return Work(int(match[group]), **sums)


_CAPTURE = re.compile(r"capture_(?P<size>\d+)_(?P<mode>[A-Za-z_]+)")
_GRAPH_CAPTURE = re.compile(r"graph_capture: batch=(?P<size>\d+) mode=(?P<mode>\w+)")


@lru_cache(maxsize=4096)
def parse_capture_span(text: str) -> GraphKey | None:
    """`capture_<n>_<MODE>`: vLLM's modes (FULL, PIECEWISE) count tokens, SGLang's forward modes count as they run.

    The runner is unknown there, and stays empty.
    """
    match = _CAPTURE.fullmatch(text) or _GRAPH_CAPTURE.fullmatch(text)
    if match is None:
        return None
    size, word = int(match["size"]), match["mode"].upper()
    mode = _MODES.get(word)
    if mode is None:
        phase = Phase.DECODE if word == "FULL_DECODE_ONLY" else Phase.MIXED
        return GraphKey("", Shape(size, Unit.TOKENS, (word.lower(),)), phase)
    return GraphKey("", Shape(size, Unit.TOKENS if mode in _CONTEXT_MODES else Unit.REQUESTS), mode)
