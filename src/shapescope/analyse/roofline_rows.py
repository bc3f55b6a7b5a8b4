"""What `roofline` looks at: the complete replays of a run, and the device that they ran on."""

from __future__ import annotations

import polars as pl

from shapescope.analyse.devices import Device, trace_device
from shapescope.analyse.samples import replay_kernels
from shapescope.read.run import Run


def roofline_rows(run: Run, kernels: pl.DataFrame | None = None) -> pl.DataFrame:
    """Replayed kernels as `roofline` takes them, of complete replays."""
    rows = replay_kernels(run, kernels).filter("complete").drop("ts", "dur", "variant", strict=False)
    texts = run.assembly.steps.select("part", step_number="step", step_text="text")
    placed = rows.join(
        texts, left_on=["part", "step"], right_on=["part", "step_number"], how="left", maintain_order="left"
    )
    return placed.drop("step").rename({"step_text": "step", "file": "replay_file"})


def run_device(run: Run) -> Device | None:
    """The device of all traces that state one; None where that is unknown or not one model."""
    found = [
        trace_device(entries)
        for part in run.parts
        if (entries := [entry for entry in part.metadata.get("deviceProperties") or () if isinstance(entry, dict)])
    ]
    names = {device.name if device else None for device in found}
    return found[0] if len(names) == 1 else None
