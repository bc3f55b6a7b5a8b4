"""The spans that mark a key inside a trace: how a recorder writes them and a reader knows them again.

A span is `shapescope.<mark> <key>`, the key urlencoded: some versions of torch write names into JSON unescaped, so a
span must hold no quote, backslash or control character.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs, urlencode

from shapescope.model import GraphKey, Phase, Shape, Unit

_PREFIX = "shapescope."
# Around what a tape adds to a replay on its own account: ops in it are not the model's.
COPY_BACK_SPAN = f"{_PREFIX}copy-back"
# Around a call that launches kernels without an op: `call_name` and `parse_call`.
CALL_SPAN = f"{_PREFIX}call "


class Mark(StrEnum):
    """What a span brackets."""

    WARMUP = "warmup"
    CAPTURE = "capture"
    SEGMENT = "segment"
    REPLAY = "replay"


def span_name(mark: Mark, key: GraphKey | None) -> str:
    """The span's text; a graph without a key is `shapescope.<mark> ` alone."""
    if key is None:
        return f"{_PREFIX}{mark} "
    fields: list[tuple[str, str]] = [
        ("runner", key.runner),
        ("phase", key.phase),
        ("size", str(key.shape.size)),
        ("unit", key.shape.unit),
        *(("variant", variant) for variant in key.shape.variants),
    ]
    return f"{_PREFIX}{mark} {urlencode(fields)}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that no op announces: the function, and of its tensors in order the dims, types and strides."""

    function: str
    dims: tuple[tuple[int, ...], ...] = ()
    types: tuple[str, ...] = ()
    strides: tuple[tuple[int, ...], ...] = ()


def call_name(call: Call) -> str:
    """The span around such a call."""
    shapes = {"dims": call.dims, "types": call.types, "strides": call.strides}
    described = {name: json.dumps(value, separators=(",", ":")) for name, value in shapes.items()}
    return f"{CALL_SPAN}{urlencode({'function': call.function, **described})}"


def parse_call(text: str) -> Call | None:
    """Read such a span back; None for any other."""
    if not text.startswith(CALL_SPAN):
        return None
    try:
        fields = parse_qs(text.removeprefix(CALL_SPAN), keep_blank_values=True, strict_parsing=True)
        dims, types, strides = (json.loads(fields[name][0]) for name in ("dims", "types", "strides"))
        return Call(fields["function"][0], tuple(map(tuple, dims)), tuple(types), tuple(map(tuple, strides)))
    except (KeyError, TypeError, ValueError):
        return None


def segment_name(number: int) -> str:
    """The span around one segment, counted from 0 within its capture."""
    return f"{_PREFIX}{Mark.SEGMENT} {number}"


def parse_span(text: str) -> tuple[Mark, GraphKey | None] | None:
    """Read a span of ours back; None for anybody else's. A segment has no key of its own."""
    if not text.startswith(_PREFIX):
        return None
    word, _, rest = text.removeprefix(_PREFIX).partition(" ")
    try:
        mark = Mark(word)
        return mark, None if mark is Mark.SEGMENT or not rest else _parse_key(rest)
    except (KeyError, ValueError):
        return None


def _parse_key(text: str) -> GraphKey:
    fields = parse_qs(text, keep_blank_values=True, strict_parsing=True)
    shape = Shape(int(fields["size"][0]), Unit(fields["unit"][0]), tuple(fields.get("variant", ())))
    return GraphKey(fields["runner"][0], shape, Phase(fields["phase"][0]))
