"""The top-level fields around the list of events, parsed from the text before and after it, whole or damaged."""

from __future__ import annotations

import json
import re
from typing import Any

_DECODER = json.JSONDecoder(strict=False)
_KNOWN_FIELDS = (
    "schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit", "baseTimeNanoseconds", "traceName", "trace_id",
    "cupti_version", "cuda_runtime_version", "cuda_driver_version", "roctracer_version", "hip_runtime_version",
    "hip_driver_version", "record_shapes", "with_stack", "with_flops", "with_modules", "profile_memory", "shapescope",
)  # fmt: skip
_KNOWN = "|".join(_KNOWN_FIELDS)
_KNOWN_FIELD = re.compile(rf'"({_KNOWN})"\s*:\s*')
_LIST_ENDS = re.compile(rf'\](?=\s*,\s*"(?:{_KNOWN})"\s*:)|\](?=\s*\}}\s*\Z)'.encode())
_SURPLUS_COMMA = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|,(?=\s*[}\]])', re.DOTALL)
_HEAD_BEGINS = re.compile(rf'\{{\s*"(?:metadata|{_KNOWN})"\s*:'.encode())
_BOM = b"\xef\xbb\xbf"


def parse_metadata(head: bytes, tail: bytes) -> tuple[dict[str, Any], int] | None:
    """All fields but the events, and where in `tail` the document ends. None: it is damaged, or there is more to come.

    `head` reaches to the `[` of the events, `tail` begins behind their `]`.
    """
    text = head.removeprefix(_BOM).lstrip() + b"]" + tail
    parsed = _parse(text) or _parse(_SURPLUS_COMMA.sub(_blanked, text))
    if parsed is None:
        return None
    fields, end = parsed
    fields.pop("traceEvents", None)
    end -= len(text) - len(tail)
    return (fields, end) if end > 0 else None  # an object that ends before the events is not the one around them


def _parse(text: bytes) -> tuple[dict[str, Any], int] | None:
    try:
        # One character a byte, so that the end is counted in bytes.
        fields, end = _DECODER.raw_decode(text.decode("latin-1"))
        if not text[:end].isascii():
            fields = _DECODER.decode(text[:end].decode("utf-8", "replace"))
    except (json.JSONDecodeError, RecursionError):
        return None
    return (fields, end) if isinstance(fields, dict) else None


def _blanked(match: re.Match[bytes]) -> bytes:
    return match[1] or b" "


def salvage_metadata(head: bytes, tail: bytes) -> dict[str, Any]:
    """What can be read of damaged fields: only those known by name, since a key's depth can no longer be told."""
    text = (head + b"]" + tail).decode("utf-8", "replace")
    fields: dict[str, Any] = {}
    at = 0
    while match := _KNOWN_FIELD.search(text, at):
        at = match.end()
        try:
            fields[match[1]], at = _DECODER.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            continue
    return fields


def find_head(text: bytes) -> bytes:
    """Of the text before `"traceEvents"`, what belongs to its document: from the last brace with a top-level field."""
    heads = list(_HEAD_BEGINS.finditer(text))
    return text[heads[-1].start() :] if heads else b"{"


def find_tail(text: bytes) -> bytes | None:
    """The text behind the events' `]` where a reader could not see it because the last event is damaged: the end of a
    document, up to its last brace. None: there is no such end."""
    for match in _LIST_ENDS.finditer(text):
        tail = text[match.end() :]
        parsed = parse_metadata(b'{"traceEvents":[', tail)
        if parsed is not None and not tail[parsed[1] :].strip():
            return tail
    return None


def is_cut(text: bytes) -> bool:
    """Whether a text without events is the beginning of a JSON object whose rest is missing."""
    try:
        _DECODER.raw_decode(text.removeprefix(_BOM).lstrip().decode("latin-1"))
    except json.JSONDecodeError as error:
        return error.pos >= len(error.doc) - 1 or error.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False
