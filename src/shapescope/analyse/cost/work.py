"""The work of a step, as spans of patched engines carry it: sums of query and KV lengths and of their
products.

Dialects (design/TRACE_FORMAT.md, section 4):
`step[DECODE bs=64 g_sqsq=64 g_sqsk=100032 g_sk=100032]`, `step[MIXED bs=66 c_sq=2048 c_sk=.. g_sq=64
g_sk=..]`, `execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_EXECUTE = re.compile(
    r"context_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)_generation_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
)
_FIELD = re.compile(r"\b([cg])_(sqsq|sqsk|sq|sk)=(\d+)")
_STEP = re.compile(r"\bstep\[(\w+) bs=(\d+)(?: toks=(\d+))?")


@dataclass(frozen=True, slots=True)
class Lengths:
    """Sums over the requests of one kind: query tokens, KV tokens, query squared, query times KV. None = not
    stated.
    """

    sq: int
    sk: int | None = None
    sqsq: int | None = None
    sqsk: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What attention had to do in one step: prefill (`context`) and decode (`generation`) requests apart."""

    context: Lengths
    generation: Lengths


def step_work(span: str | None) -> Work | None:
    """The aggregates in a span's text, or None where it carries none."""
    if not span:
        return None
    if found := _EXECUTE.search(span):
        numbers = [int(digits) for digits in found.groups()]
        return Work(Lengths(*numbers[:4]), Lengths(*numbers[4:]))
    fields = {(kind, field): int(digits) for kind, field, digits in _FIELD.findall(span)}
    step = _STEP.search(span)
    if not fields or step is None:
        return None
    phase, batch, tokens = step[1], int(step[2]), step[3]
    context_tokens = int(tokens) if tokens and phase == "EXTEND" else None
    return Work(_lengths(fields, "c", context_tokens), _lengths(fields, "g", batch if phase == "DECODE" else None))


def _lengths(fields: dict[tuple[str, str], int], kind: str, tokens: int | None) -> Lengths:
    """One kind's sums. A decode request has one query token, so that its products are sums of KV lengths."""
    if not any(key == kind for key, _ in fields):
        return Lengths(0, 0, 0, 0)
    sk, sqsq, sqsk = (fields.get((kind, field)) for field in ("sk", "sqsq", "sqsk"))
    sq = fields.get((kind, "sq"), tokens)
    if sq is None:
        sq = sqsq if kind == "g" and sqsq is not None else 0
    if kind == "g" and sqsk is None and sqsq in (None, sq):
        sqsk = sk
    return Lengths(sq, sk, sqsq, sqsk)
