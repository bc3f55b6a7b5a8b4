"""Fakes shaped like SGLang's shape keys and graph runners."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class ShapeKey:
    size: int
    stream_idx: int | None = None
    variant_label: str | None = None
    attention_variant: str | None = None


@dataclass(frozen=True)
class LaterShapeKey(ShapeKey):
    beam_width: int | None = None


def runner(kind: str = "DecodeCudaGraphRunner", *, draft: bool = False, forward: str = "DECODE", **fields: Any) -> Any:
    made = type(kind, (), {})()
    made.model_runner = SimpleNamespace(is_draft_worker=draft)
    made.capture_forward_mode = SimpleNamespace(name=forward)
    for name, value in fields.items():
        setattr(made, name, value)
    return made
