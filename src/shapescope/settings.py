"""Typed switches, from the environment and from `shapescope.toml`. A bad value is an error, never a silent default.

Precedence: what a call passes, then `SHAPESCOPE_*` variables, then `shapescope.toml` or `[tool.shapescope]` of
`pyproject.toml` in the working directory. With both trace switches set, the combined trace wins.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from shapescope.errors import UsageError
from shapescope.model import Evidence

MASTER = "SHAPESCOPE_PROFILE_CUDA_GRAPH"
PER_SHAPE = "SHAPESCOPE_GRAPH_BATCH_CAPTURE"
COMBINED = "SHAPESCOPE_GRAPH_CAPTURE_TRACE"
FOLDER = "SHAPESCOPE_PROFILER_DIR"
DETAIL = "SHAPESCOPE_DETAIL"
EVIDENCE = "SHAPESCOPE_EVIDENCE"
MEASURE = "SHAPESCOPE_MEASURE"
DISCOVER = "SHAPESCOPE_DISCOVER"
DEVICE_ACTIVITY = "SHAPESCOPE_DEVICE_ACTIVITY"

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})


class Mode(StrEnum):
    """How much is recorded."""

    OFF = "off"
    SUMMARY = "summary"
    COMBINED = "combined"
    PER_SHAPE = "per-shape"


class Detail(StrEnum):
    """What a trace holds: `light` has shapes; `full` has shapes, stacks and memory."""

    LIGHT = "light"
    FULL = "full"


Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """What to record, and where to. `evidence` None means what the device is good for; `measure` counts timed replays.

    `device_activity` None means as the device needs it: with it, a capture window on NVIDIA records CUPTI's activities too.
    `combined_won` tells that both trace switches were set, so that the recorder can say which one counts.
    """

    mode: Mode = Mode.OFF
    folder: str | None = None
    detail: Detail = Detail.FULL
    evidence: frozenset[Evidence] | None = None
    measure: int | None = None
    discover: tuple[str, ...] = ()
    device_activity: bool | None = None
    combined_won: bool = False


def recording_settings(
    environment: Mapping[str, str] | None = None, working_directory: Path | None = None
) -> RecordingSettings:
    """Read the switches. Raises UsageError, with the name of the switch, for a value that is not accepted."""
    environment = os.environ if environment is None else environment
    values = {**_from_toml(working_directory or Path.cwd()), **_from_environment(environment)}
    combined, per_shape = _switch(values, COMBINED), _switch(values, PER_SHAPE)
    return RecordingSettings(
        mode=_mode(combined, per_shape, _switch(values, MASTER)),
        folder=values.get(FOLDER) or None,
        detail=detail_named(values[DETAIL], DETAIL) if values.get(DETAIL) else Detail.FULL,
        evidence=_evidence(values),
        measure=_count(values, MEASURE),
        discover=_words(values, DISCOVER),
        device_activity=_switch(values, DEVICE_ACTIVITY) if values.get(DEVICE_ACTIVITY) else None,
        combined_won=combined and per_shape,
    )


def switches_of(settings: RecordingSettings) -> dict[str, str]:
    """The variables that make a child process read the same settings, whatever else its environment or TOML says."""
    switches = {
        MASTER: Mode.SUMMARY,
        PER_SHAPE: Mode.PER_SHAPE,
        COMBINED: Mode.COMBINED,
    }
    values = {name: "1" if settings.mode is mode else "0" for name, mode in switches.items()}
    values |= {DETAIL: settings.detail, DISCOVER: ",".join(settings.discover)}
    values |= {EVIDENCE: ",".join(sorted(settings.evidence or ()))}
    values |= {MEASURE: "" if settings.measure is None else str(settings.measure)}
    values |= {DEVICE_ACTIVITY: "" if settings.device_activity is None else str(int(settings.device_activity))}
    return values if settings.folder is None else {**values, FOLDER: settings.folder}


def _mode(combined: bool, per_shape: bool, master: bool) -> Mode:
    if combined:
        return Mode.COMBINED
    if per_shape:
        return Mode.PER_SHAPE
    return Mode.SUMMARY if master else Mode.OFF


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    names = (MASTER, PER_SHAPE, COMBINED, FOLDER, DETAIL, EVIDENCE, MEASURE, DISCOVER, DEVICE_ACTIVITY)
    return {name: environment[name] for name in names if name in environment}


# The same switches as TOML spells them, under [recording].
_TOML = {
    "profile_cuda_graph": MASTER,
    "graph_batch_capture": PER_SHAPE,
    "graph_capture_trace": COMBINED,
    "profiler_dir": FOLDER,
    "detail": DETAIL,
    "evidence": EVIDENCE,
    "measure": MEASURE,
    "discover": DISCOVER,
    "device_activity": DEVICE_ACTIVITY,
}


def _from_toml(folder: Path) -> dict[str, str]:
    table = _recording_table(folder)
    unknown = sorted(set(table) - set(_TOML))
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r} under [recording]", f"Known settings: {', '.join(_TOML)}.")
    return {_TOML[name]: _toml_text(value) for name, value in table.items()}


def _recording_table(folder: Path) -> dict[str, Any]:
    for name, path in (("shapescope.toml", ("recording",)), ("pyproject.toml", ("tool", "shapescope", "recording"))):
        file = folder / name
        if not file.is_file():
            continue
        try:
            table: Any = tomllib.loads(file.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} is not TOML: {error}") from error
        for word in path:
            table = table.get(word, {})
        if table:
            return dict(table)
    return {}


def _toml_text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _switch(values: Mapping[str, str], name: str) -> bool:
    text = values.get(name, "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise UsageError(f"{name}={values[name]!r} is neither on nor off", "Set it to 1 or 0.")


def detail_named(text: str, switch: str = "--detail") -> Detail:
    """Raises UsageError."""
    return _named(text, Detail, switch)


def mode_named(text: str, switch: str = "--mode") -> Mode:
    """Raises UsageError."""
    return _named(text, Mode, switch)


def _named(text: str, kind: type[Word], switch: str) -> Word:
    try:
        return kind(text.strip().lower())
    except ValueError as error:
        raise UsageError(f"{switch} {text!r} is not known", f"Pass one of {', '.join(kind)}.") from error


def _evidence(values: Mapping[str, str]) -> frozenset[Evidence] | None:
    words = _words(values, EVIDENCE)
    try:
        return frozenset(map(Evidence, words)) or None
    except ValueError as error:
        raise UsageError(f"{EVIDENCE}={values[EVIDENCE]!r}: {error}", f"Choose from {', '.join(Evidence)}.") from error


def _count(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"{name}={text!r} is no count", "Set it to 0 or more.")
    return int(text)


def _words(values: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in values.get(name, "").split(",") if word.strip())
