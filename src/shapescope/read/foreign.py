"""What file names hint at. Names are written by many tools and renamed by people: hints, never authority.

Known dialects: our own names and SGLang's (`<runner>_bs_<n>[_<variant>..]_rank<r>`, older `bs_<n>_rank<r>`), combined
traces (`cuda_graph_capture-<runner>-TP-<t>`), vLLM's `graph_capture_rank_<r>.<ns>.pt.trace`, serving traces
(`<id>-TP-<t>[-DP-<d>]..trace`, `dp0_pp0_tp0_..rank0.<ns>.pt.trace`, ATOM's `rank_<r>/` folders), and torch's
`tensorboard_trace_handler` (`<host>_<pid>.<ns>.pt.trace`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from shapescope.model import Evidence, GraphKey, Phase, Unit
from shapescope.read.spans import parse_capture_span
from shapescope.store.layout import default_phase

# TraceLens writes this beside the captures that it has looked at: [{"file", "batch_size", "mode"}].
DETAILS_FILE = "execution_details.json"


@dataclass(frozen=True, slots=True)
class NameHint:
    """What a name says about its file; None where it says nothing.

    `ranks` holds what stands in the name under `rank`, `tp`, `pp`, `dp`, `ep`, ..; `combined` is a trace of many shapes.
    """

    runner: str | None = None
    size: int | None = None
    unit: Unit | None = None
    variants: tuple[str, ...] = ()
    phase: Phase | None = None
    evidence: Evidence | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)
    combined: bool = False

    @property
    def key(self) -> GraphKey | None:
        """The whole key, where the name states a size."""
        if self.size is None or self.unit is None:
            return None
        phase = self.phase or default_phase(self.runner or "", self.unit)
        return GraphKey.of(self.runner or "", self.size, *self.variants, unit=self.unit, phase=phase)


_SUFFIXES = re.compile(r"(?:\.pt)?(?:\.trace)?\.json(?:\.gz)?$|\.gz$", re.IGNORECASE)
_EVIDENCE = re.compile(r"\.(warmup|replay|nodes)(?:-\d+)?$")
_RANK = re.compile(r"(?:^|[^A-Za-z0-9])(rank|tp|pp|dp|ep|dcp|pcp)[-_]?(\d+)(?![A-Za-z0-9])", re.IGNORECASE)
_RANK_TAIL = re.compile(r"(?:_(?:tp|pp|dp|ep)\d+)*_rank\d+(?:_dup\d+)?$")
_SHAPE = re.compile(r"(?:(?P<runner>.+)_)?(?P<unit>bs|tokens)_(?P<size>\d+)(?P<variants>(?:_[^_]+)*)")
_COMBINED = re.compile(r"cuda_graph_capture-(?P<runner>.+?)-(?:TP-\d+|(?:(?:tp|pp|dp|ep)\d+_)*rank\d+)(?:_dup\d+)?")
_VLLM_CAPTURE = re.compile(r"graph_capture_rank_\d+(?:\..*)?")
_UNIT = {"bs": Unit.REQUESTS, "tokens": Unit.TOKENS}


def name_hint(path: Path) -> NameHint:
    """Read the hints of a file's name, and of its folder's for the rank alone."""
    stem = _SUFFIXES.sub("", path.name)
    evidence = Evidence(found[1]) if (found := _EVIDENCE.search(stem)) else None
    stem = _EVIDENCE.sub("", stem)
    ranks = _ranks(stem) or _ranks(path.parent.name)
    if combined := _COMBINED.fullmatch(stem):
        return NameHint(unquote(combined["runner"]), evidence=Evidence.CAPTURE, ranks=ranks, combined=True)
    if _VLLM_CAPTURE.fullmatch(stem):
        return NameHint(evidence=Evidence.CAPTURE, ranks=ranks)
    if shape := _SHAPE.fullmatch(_RANK_TAIL.sub("", stem)):
        return _shape_hint(shape, evidence or Evidence.CAPTURE, ranks)
    return NameHint(evidence=evidence, ranks=ranks)


def details_hints(folder: Path) -> dict[str, GraphKey]:
    """By file name, the keys that a folder's `execution_details.json` states; empty where there is none to read."""
    try:
        rows = json.loads((folder / DETAILS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    keys = {
        str(row.get("file")): parse_capture_span(f"capture_{row.get('batch_size')}_{row.get('mode')}") for row in named
    }
    return {name: key for name, key in keys.items() if key is not None}


def _ranks(text: str) -> dict[str, int]:
    return {name.lower(): int(number) for name, number in _RANK.findall(text)}


def _shape_hint(shape: re.Match[str], evidence: Evidence, ranks: Mapping[str, int]) -> NameHint:
    variants: list[str] = []
    phase = None
    for word in shape["variants"].split("_")[1:]:
        if word.startswith("phase="):
            phase = next((phase for phase in Phase if phase == word[6:]), None)
        elif word.isdigit() and variants and "=" not in variants[-1]:
            # Only the value of the word before begins with a digit: `stream_1` is `stream=1`.
            variants[-1] = f"{variants[-1]}={word}"
        else:
            variants.append(unquote(word))
    runner = unquote(shape["runner"]) if shape["runner"] else None
    return NameHint(runner, int(shape["size"]), _UNIT[shape["unit"]], tuple(variants), phase, evidence, ranks)
