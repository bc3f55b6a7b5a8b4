"""Many writers, one folder: ranks agree on the run, and nobody overwrites anybody. Case 07."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shapescope.model import Evidence, GraphKey, ManifestRow, Rank
from shapescope.record.session import agree_on_run_id, current_rank
from shapescope.store.layout import TRACE_FOLDER
from shapescope.store.manifest import read_manifests

WORLD = [
    Rank(dp * 4 + pp * 2 + tp, tp, pp, dp, 0, 2, 2, 2, 1, 8) for dp in range(2) for pp in range(2) for tp in range(2)
]  # fmt: skip


def _export(root: str, rank: Rank, run_id: str) -> None:
    """One process: records bs=4 and says how many bytes it wrote."""
    import torch

    from shapescope.device import CpuDevice
    from shapescope.record.start import start
    from shapescope.settings import Detail, Mode, RecordingSettings

    os.environ["SHAPESCOPE_RUN_ID"] = run_id
    settings = RecordingSettings(Mode.PER_SHAPE, root, Detail.LIGHT, frozenset({Evidence.CAPTURE}))
    profiler = start(settings, engine="test", device=CpuDevice(), rank=rank)
    with profiler.window(GraphKey.of("R", 4)):
        torch.ones(4, 3) @ torch.ones(3, 3)
    profiler.drain()


def _run(root: Path, ranks: list[Rank], run_id: str) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["shapescope.record.start"])  # torch is imported once, not in each process
    workers = [context.Process(target=_export, args=(str(root), rank, run_id)) for rank in ranks]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {worker.exitcode for worker in workers} == {0}


def test_case_07_eight_writers_two_of_them_with_one_identity(tmp_path: Path) -> None:
    _run(tmp_path, [*WORLD, WORLD[3]], "first")
    names = sorted(path.name for path in (tmp_path / "first" / TRACE_FOLDER).iterdir())
    expected = [f"R_bs_4_tp{r.tp}_pp{r.pp}_dp{r.dp}_rank{r.rank}.json.gz" for r in WORLD]
    assert names == sorted([*expected, "R_bs_4_tp1_pp1_dp0_rank3_dup1.json.gz"])
    rows = [row for _, row in read_manifests(tmp_path / "first") if isinstance(row, ManifestRow) and row.file]
    assert len(rows) == 9
    assert [row.warnings for row in rows].count(("duplicate-key",)) == 1
    for row in rows:
        assert row.bytes == (tmp_path / "first" / str(row.file)).stat().st_size
    _run(tmp_path, WORLD[:1], "second")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]
    assert len(list((tmp_path / "second" / TRACE_FOLDER).iterdir())) == 1


@pytest.mark.parametrize(
    ("environment", "broadcast", "expected"),
    [
        ({"SHAPESCOPE_RUN_ID": "inherited", "TORCHELASTIC_RUN_ID": "elastic"}, "sent", "inherited"),
        ({"TORCHELASTIC_RUN_ID": "elastic"}, "sent", "elastic"),
        ({"TORCHELASTIC_RUN_ID": "none"}, "sent", "sent"),
        ({}, "sent", "sent"),
    ],
)
def test_all_ranks_agree_on_the_run(environment: dict[str, str], broadcast: str, expected: str) -> None:
    assert agree_on_run_id(environment, lambda own: broadcast) == expected
    assert environment["SHAPESCOPE_RUN_ID"] == expected


def test_alone_a_process_names_its_own_run() -> None:
    one, other = agree_on_run_id({}), agree_on_run_id({})
    assert one != other


def test_what_torchrun_says_of_a_rank() -> None:
    assert current_rank({"RANK": "3", "WORLD_SIZE": "4"}) == Rank(rank=3, tp=3, tp_size=4, world_size=4)
    assert current_rank({}) == Rank()
    assert current_rank({"RANK": "three", "WORLD_SIZE": "4"}) == Rank()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("processes", "tp", "names"), [(4, 2, "tp{tp}_dp{dp}_rank{rank}"), (2, 2, "rank{tp}")])
def test_torchrun_leaves_one_run(processes: int, tp: int, names: str, tmp_path: Path) -> None:
    """Tensor parallel, collectives inside the captured graph, target, draft and draft-extend side by side."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHAPESCOPE_")}
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "-m", "shapescope"]
    demo = ["demo", "--sizes", "1,2,4", "--tp", str(tp), "--draft", "-o", str(tmp_path), "-q"]
    subprocess.run([*launch, *demo], env=environment, check=True, capture_output=True, timeout=390)
    (run,) = tmp_path.iterdir()
    places = [names.format(tp=rank % tp, dp=rank // tp, rank=rank) for rank in range(processes)]
    runners = ("DecodeRunner", "DraftRunner", "DraftExtendRunner")
    stems = {f"{runner}_bs_{size}_{place}" for runner in runners for size in (1, 2, 4) for place in places}
    found = {path.name for path in (run / TRACE_FOLDER).iterdir()}
    assert found == {f"{stem}{end}" for stem in stems for end in (".json.gz", ".replay.json.gz")}
    check = [sys.executable, "-m", "shapescope", "check", str(run), "--format", "json"]
    result = json.loads(subprocess.run(check, check=True, capture_output=True, text=True).stdout)
    assert {row["status"] for row in result["rows"]} == {"ok"}
    assert {warning["code"] for warning in result["warnings"]} <= {"dummy-inputs"}
    kernels = [sys.executable, "-m", "shapescope", "kernels", str(run), "--by", "class", "--format", "json"]
    rows = json.loads(subprocess.run(kernels, check=True, capture_output=True, text=True).stdout)["rows"]
    assert {row["rank"] for row in rows if row["class"] == "collective"} == set(range(processes))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("processes", [2, 4])
def test_an_all_to_all_and_an_all_reduce_inside_a_graph(processes: int, tmp_path: Path) -> None:
    """And recording on one rank only never hangs the others."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHAPESCOPE_")}
    script = str(Path(__file__).with_name("collectives.py"))
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), script, str(tmp_path)]
    subprocess.run(
        launch, env={**environment, "SHAPESCOPE_RUN_ID": "run"}, check=True, capture_output=True, timeout=110
    )
    names = sorted(path.name for path in (tmp_path / "run" / TRACE_FOLDER).iterdir())
    assert names == [f"Experts_bs_{size}_ep0_rank0.json.gz" for size in (processes, 2 * processes)]
    kernels = [
        sys.executable,
        "-m",
        "shapescope",
        "kernels",
        str(tmp_path / "run"),
        "--by",
        "class",
        "--format",
        "json",
    ]
    rows = json.loads(subprocess.run(kernels, check=True, capture_output=True, text=True).stdout)["rows"]
    assert [row["calls"] for row in rows if row["class"] == "collective"] == [2, 2]
