"""One run, and perhaps a base, gathered into a page: every command's table, and what is known of the run itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shapescope.analyse.devices import Device
from shapescope.analyse.diff import diff
from shapescope.analyse.roofline_rows import run_device
from shapescope.model import RunManifest
from shapescope.read.run import Run
from shapescope.show import tables
from shapescope.show.page import Fact, Page, flat
from shapescope.show.result import Result

# Every table of the page that one run gives, in the order of the page's list of tables.
TABLES: Mapping[str, Callable[[Run], Result]] = {
    "shapes": tables.shapes,
    "kernels": lambda run: tables.kernels(run, by="kernel"),
    "launches": lambda run: _without_stacks(tables.kernels(run)),
    "switches": lambda run: tables.switches(run, tiles=True),
    "join": lambda run: _without_stacks(tables.join(run)),
    "roofline": lambda run: tables.roofline(run, run_device(run)),
    "memory": tables.memory,
    "coverage": tables.coverage,
    "ranks": tables.ranks,
    "findings": lambda run: tables.findings(run, device=run_device(run)),
    "check": tables.check,
}
_NO_MANIFEST = "these traces come without a run.json"


def gather(run: Run, base: Run | None = None) -> Page:
    """All tables of a run. With a base, its shapes too, for comparison."""
    found = {name: build(run) for name, build in TABLES.items()}
    if base is not None:
        found["diff"] = tables.diff(diff(base, run), base, run)
        found["base_shapes"] = tables.shapes(base)
    return Page(
        title=_title(run),
        facts=tuple(_facts(run, found)),
        tables=found,
        environment=_environment(run),
        device=_peaks(run_device(run)),
        base_title=None if base is None else _title(base),
        base_environment={} if base is None else _environment(base),
    )


def _without_stacks(result: Result) -> Result:
    """Stacks are long, and their place is the command line and the trace itself."""
    return replace(result, columns=tuple(column for column in result.columns if column != "stack"))


def _title(run: Run) -> str:
    return ", ".join(manifest.run_id for manifest in run.manifests) or run.path.resolve().name


def _peaks(device: Device | None) -> dict[str, Any] | None:
    """The roof over the roofline: FLOP/s by number type and bytes/s."""
    return None if device is None else {"name": device.name, "peak": dict(device.peak), "bandwidth": device.bandwidth}


def _environment(run: Run) -> dict[str, str]:
    return dict(flat(run.manifests[0].environment)) if run.manifests else {}


def _facts(run: Run, found: Mapping[str, Result]) -> Iterator[Fact]:
    manifest = run.manifests[0] if run.manifests else None
    environment = manifest.environment if manifest else {}
    packages = environment.get("packages", {})
    absent = "run.json does not state it" if manifest else _NO_MANIFEST
    engine = manifest.engine if manifest else None
    version = packages.get(engine) if isinstance(packages, Mapping) else None
    yield Fact("model", manifest.model if manifest else None, absent)
    yield Fact("engine", f"{engine} {version}" if engine and version else engine, absent)
    yield Fact("device", environment.get("device_name") or environment.get("device") or _traced_device(run), absent)
    yield Fact("driver", _driver(environment), absent)
    yield Fact("torch", packages.get("torch") if isinstance(packages, Mapping) else None, absent)
    yield Fact("recorded", manifest.created.replace("T", " ").replace("+00:00", " UTC") if manifest else None, absent)
    yield Fact("detail", f"{manifest.detail}, {manifest.mode}" if manifest else None, absent)
    yield from _counts(manifest, found)


def _traced_device(run: Run) -> str | None:
    """The devices that the traces themselves name."""
    entries = [
        entry for part in run.parts for entry in part.metadata.get("deviceProperties") or () if isinstance(entry, dict)
    ]
    return ", ".join(dict.fromkeys(str(entry["name"]) for entry in entries if entry.get("name"))) or None


def _counts(manifest: RunManifest | None, found: Mapping[str, Result]) -> Iterator[Fact]:
    """What is here, against what should be."""
    shapes, files = found["shapes"].rows, found["check"].rows
    ranks = {row["rank"] for row in shapes if row["rank"] is not None}
    world = f" of {manifest.world_size}" if manifest else ""
    yield Fact("ranks", f"{len(ranks)}{world}" if ranks else None, "no file states its rank")
    sources = {row["time_source"] for row in shapes if row["time_source"] is not None}
    well = sum(row["status"] == "ok" for row in shapes)
    yield Fact(
        "shapes",
        f"{well} of {len(shapes)} complete" if shapes else None,
        "nothing here was captured or replayed by shape",
    )
    contexts = sorted({row["context_len"] for row in shapes if row["context_len"] is not None})
    yield Fact(
        "context", ", ".join(f"{length:,}" for length in contexts) or None, "no replay states its context length"
    )
    yield Fact("times", ", ".join(sorted(sources)) or None, "no shape was replayed, so there are launches and no times")
    events = sum(row["events"] or 0 for row in files)
    lost = sum(row["lost"] or 0 for row in files)
    yield Fact(
        "files", f"{len({row['file'] for row in files})} with {events:,} events" + (f", {lost:,} lost" if lost else "")
    )


def _driver(environment: Mapping[str, Any]) -> str | None:
    runtime = next(
        (f"{name} {environment[key]}" for name, key in (("CUDA", "cuda"), ("ROCm", "hip")) if environment.get(key)),
        None,
    )
    return " · ".join(filter(None, (environment.get("driver"), runtime))) or None
