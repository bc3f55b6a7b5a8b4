"""The captures of a trace with the key of each, and the trace's rank. Metadata first, then spans, then the name.

What nothing names stays unlabelled; a name that its content contradicts is reported, and the content decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from shapescope.model import GraphKey, TraceIdentity
from shapescope.read.classify import marked
from shapescope.read.foreign import NameHint
from shapescope.read.frames import in_time_order, named
from shapescope.read.identity import Label, RankFound, Window
from shapescope.read.processes import Process
from shapescope.read.spans import parse_capture_span
from shapescope.store.layout import default_phase
from shapescope.store.spans import Mark, parse_span


def windows(
    process: Process, segments: pl.DataFrame, identity: TraceIdentity | None, hint: NameHint, stated: GraphKey | None
) -> list[Window]:
    """The captures of one process in time order, each with its label.

    `stated` is what a file beside the trace says of it. One window spans the whole trace where no span divides it.
    """
    named = _named_label(hint, stated)
    spans = _capture_spans(process, segments)
    if identity is not None and identity.key is not None and len(spans) < 2:
        label = Label.of(identity.key)
        return [Window(label, "metadata", mismatch=_mismatch(named, label))]
    if spans:
        return _numbered([_annotated(span, named, hint) for span in spans])
    if named is not None:
        return [Window(named, "name")]
    if hint.combined and segments.height > 1:
        bounds = segments.select("ts", "dur").iter_rows()
        return _numbered([Window(Label(hint.runner), None, ts, dur) for ts, dur in bounds])
    return _numbered([Window(Label(hint.runner), None)])


def _named_label(hint: NameHint, stated: GraphKey | None) -> Label | None:
    if hint.key is not None:
        return Label.of(hint.key)
    return Label.of(stated) if stated is not None else None


def _capture_spans(process: Process, segments: pl.DataFrame) -> list[Window]:
    """The spans around captures: the recorder's own, else an engine's that hold a segment."""
    own = marked(process.spans, Mark.CAPTURE)
    if own.height:
        keys = [found[1] for name in own["name"] if (found := parse_span(name)) is not None]
        return [
            Window(Label.of(key) if key else Label(), "annotation" if key else None, ts, dur)
            for key, (ts, dur) in zip(keys, own[["ts", "dur"]].iter_rows(), strict=True)
        ]
    begins = segments["ts"].to_list()
    spans = in_time_order(named(process.spans, lambda name: parse_capture_span(name) is not None))
    return [
        Window(Label.of(key), "annotation", ts, dur)
        for name, ts, dur in spans[["name", "ts", "dur"]].iter_rows()
        if (key := parse_capture_span(name)) is not None and any(ts <= begin <= ts + dur for begin in begins)
    ]


def _annotated(span: Window, named: Label | None, hint: NameHint) -> Window:
    """A span's label, completed by what only the name tells: the runner, and its variants."""
    label = span.label
    if span.key_source is None:
        return replace(span, label=replace(label, runner=hint.runner))
    if label.runner is not None:
        return replace(span, mismatch=_mismatch(named, label))
    runner = hint.runner
    phase = label.phase if runner is None or label.unit is None else default_phase(runner, label.unit)
    whole = replace(label, runner=runner, phase=phase, variants=(*hint.variants, *label.variants))
    return replace(span, label=whole, mismatch=_mismatch(named, whole))


def _mismatch(named: Label | None, label: Label) -> str | None:
    if named is None or (named.size == label.size and (named.runner or label.runner) == label.runner):
        return None
    return f"the name says {named.words}, the content {label.words}"


def _numbered(found: list[Window]) -> list[Window]:
    return [
        replace(window, label=replace(window.label, sequence=number)) if window.label.size is None else window
        for number, window in enumerate(found)
    ]


def rank_found(
    process: Process,
    metadata: Mapping[str, Any],
    identity: TraceIdentity | None,
    hint: NameHint,
) -> RankFound:
    """The rank: of the recorder, of torch, of a merged file's own labels, of the name.

    A name gives the global rank, or the tensor rank where no other dimension is in play; anything else is a place in
    an unknown world, kept apart from all others and not counted as a rank.
    """
    if identity is not None and not process.merged:
        return RankFound(identity.rank.rank, world_size=identity.rank.world_size)
    world = metadata.get("distributedInfo")
    world = world if isinstance(world, Mapping) else {}
    size = _whole(world.get("world_size"))
    if process.merged:
        return RankFound(process.label_rank, world_size=size)
    if (rank := _whole(world.get("rank"))) is not None:
        return RankFound(rank, world_size=size)
    ranks = dict(hint.ranks)
    if "rank" in ranks:
        return RankFound(ranks["rank"], world_size=size)
    others = {name: number for name, number in ranks.items() if name != "tp" and number}
    if "tp" in ranks and not others:
        return RankFound(ranks["tp"], world_size=size)
    return RankFound(None, tuple(sorted(ranks.items())) or None, size)


def _whole(value: object) -> int | None:
    """A number as torch or another tool wrote it: whole, or as text."""
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
