"""Switching the recorder on inside a host: from the environment, or not at all. Nothing here raises into the host."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from shapescope.device import Device, open_device
from shapescope.model import GraphKey, Rank
from shapescope.record.guard import log
from shapescope.record.profiler import CaptureProfiler
from shapescope.record.session import open_session
from shapescope.settings import Mode, RecordingSettings, recording_settings


def from_environment(
    engine: str, *, rank: Rank | None = None, model: str | None = None, settings: RecordingSettings | None = None
) -> CaptureProfiler | None:
    """A recorder as the switches ask, or None: switched off, a bad setting or an unwritable folder (one warning each)."""
    try:
        settings = recording_settings() if settings is None else settings
        if settings.mode is Mode.OFF:
            return None
        return start(settings, engine=engine, rank=rank, model=model)
    except Exception as error:  # noqa: BLE001 - the host boundary: a server starts whatever keeps us from recording it
        log.warning("shapescope: recording stays off: %s %s", error, getattr(error, "hint", ""))
        return None


def start(
    settings: RecordingSettings,
    *,
    engine: str,
    device: Device | None = None,
    rank: Rank | None = None,
    model: str | None = None,
    requested: Sequence[GraphKey] = (),
    environment: MutableMapping[str, str] | None = None,
) -> CaptureProfiler:
    """Open this process's part of a run. Raises OutputError where its folder cannot be written.

    The run id is agreed on through `environment`, the process's own if not given.
    """
    device = device or open_device()
    session = open_session(
        settings, rank=rank, engine=engine, model=model, requested=requested, device=device, environment=environment
    )
    return CaptureProfiler(session, settings, device)
