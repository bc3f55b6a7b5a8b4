"""Switches: precedence, and no silent default for a bad value."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapescope.errors import UsageError
from shapescope.model import Evidence
from shapescope.settings import Detail, Mode, RecordingSettings, recording_settings

MASTER, PER_SHAPE, COMBINED = (
    "SHAPESCOPE_PROFILE_CUDA_GRAPH", "SHAPESCOPE_GRAPH_BATCH_CAPTURE", "SHAPESCOPE_GRAPH_CAPTURE_TRACE",
)  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({}, Mode.OFF),
        ({MASTER: "0"}, Mode.OFF),
        ({MASTER: "1"}, Mode.SUMMARY),
        ({PER_SHAPE: "1"}, Mode.PER_SHAPE),
        ({PER_SHAPE: "true", MASTER: "off"}, Mode.PER_SHAPE),
        ({COMBINED: "1"}, Mode.COMBINED),
        ({COMBINED: "1", PER_SHAPE: "1"}, Mode.COMBINED),
        ({COMBINED: "0", PER_SHAPE: "1"}, Mode.PER_SHAPE),
    ],
)
def test_the_mode(environment: dict[str, str], mode: Mode, tmp_path: Path) -> None:
    assert recording_settings(environment, tmp_path).mode is mode


def test_both_trace_switches_are_remembered(tmp_path: Path) -> None:
    assert recording_settings({COMBINED: "1", PER_SHAPE: "1"}, tmp_path).combined_won
    assert not recording_settings({COMBINED: "1"}, tmp_path).combined_won


def test_every_variable(tmp_path: Path) -> None:
    environment = {
        PER_SHAPE: "yes",
        "SHAPESCOPE_PROFILER_DIR": "/data",
        "SHAPESCOPE_DETAIL": "Light",
        "SHAPESCOPE_EVIDENCE": "capture, nodes",
        "SHAPESCOPE_MEASURE": "7",
        "SHAPESCOPE_DISCOVER": "flashinfer,aiter.ops",
        "SHAPESCOPE_DEVICE_ACTIVITY": "1",
    }
    assert recording_settings(environment, tmp_path) == RecordingSettings(
        Mode.PER_SHAPE,
        "/data",
        Detail.LIGHT,
        frozenset({Evidence.CAPTURE, Evidence.NODES}),
        7,
        ("flashinfer", "aiter.ops"),
        True,
    )


def test_the_file_gives_way_to_variables(tmp_path: Path) -> None:
    (tmp_path / "shapescope.toml").write_text(
        '[recording]\ngraph_batch_capture = true\ndetail = "light"\nmeasure = 3\ndiscover = ["a", "b"]\n'
    )
    found = recording_settings({"SHAPESCOPE_MEASURE": "9"}, tmp_path)
    assert (found.mode, found.detail, found.measure, found.discover) == (Mode.PER_SHAPE, Detail.LIGHT, 9, ("a", "b"))


def test_pyproject_serves_too(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.shapescope.recording]\nprofiler_dir = "/runs"\n')
    assert recording_settings({}, tmp_path).folder == "/runs"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({PER_SHAPE: "maybe"}, PER_SHAPE),
        ({"SHAPESCOPE_DETAIL": "most"}, "SHAPESCOPE_DETAIL"),
        ({"SHAPESCOPE_EVIDENCE": "capture,gossip"}, "SHAPESCOPE_EVIDENCE"),
        ({"SHAPESCOPE_MEASURE": "-3"}, "SHAPESCOPE_MEASURE"),
        ({"SHAPESCOPE_MEASURE": "1.5"}, "SHAPESCOPE_MEASURE"),
    ],
)
def test_a_bad_value_names_its_switch(environment: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        recording_settings(environment, tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[recording]\ndetial = 'light'", "detial"),
        ("[recording", "not TOML"),
        ("[recording]\nmeasure = 'x'", "MEASURE"),
    ],
)
def test_a_bad_file_is_named(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "shapescope.toml").write_text(text)
    with pytest.raises(UsageError, match=words):
        recording_settings({}, tmp_path)
