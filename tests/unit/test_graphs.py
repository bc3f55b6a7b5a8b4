"""One contract over all backends: order of calls, keys, outputs, clean-up; and what is there when nobody observes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch

from shapescope.device import AcceleratorDevice, CpuDevice, Device, open_device
from shapescope.errors import CaptureError, UsageError
from shapescope.graphs.backends import BACKENDS, create
from shapescope.graphs.backends.base import Backend
from shapescope.graphs.breaks import run_eagerly
from shapescope.graphs.runner import GraphRunner
from shapescope.model import GraphKey
from shapescope.tape_module import TapeModule


def stand_in() -> AcceleratorDevice:
    return AcceleratorDevice(TapeModule(), torch.device("cpu"))


# Every backend, on every device that it runs on here; on a machine with a GPU, `pytest -m gpu` runs the same lines there.
PLACES: list[tuple[str, Callable[[], Device]]] = [
    ("full", stand_in), ("tape", CpuDevice), ("segmented", stand_in), ("segmented", CpuDevice), ("compiled", CpuDevice),
]  # fmt: skip
GPU_PLACES = [("full", open_device), ("segmented", open_device), ("compiled", open_device)]
Make = Callable[..., Backend]


def _places() -> Iterator[object]:
    for backend, device in PLACES:
        yield pytest.param((backend, device), id=f"{backend}-{device().kind}")
    no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    for backend, device in GPU_PLACES:
        yield pytest.param((backend, device), id=f"{backend}-gpu", marks=[pytest.mark.gpu, no_gpu])


@pytest.fixture(params=_places())
def place(request: pytest.FixtureRequest) -> tuple[str, Device]:
    backend, device = request.param
    return backend, device()


@pytest.fixture
def make(place: tuple[str, Device]) -> Make:
    return lambda **options: create(place[0], place[1], **options)


@pytest.fixture
def device(place: tuple[str, Device]) -> Device:
    return place[1]


class Log:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextmanager
    def _around(self, text: str) -> Iterator[None]:
        self.lines.append(text)
        try:
            yield
        except BaseException as error:
            self.lines.append(f"{text} failed: {error}")
            raise
        self.lines.append(f"{text} done")

    def runner(self, name: str, keys: Sequence[GraphKey]) -> object:
        return self._around(f"runner {name} {[key.shape.size for key in keys]}")

    def warmup(self, key: GraphKey, index: int, count: int) -> object:
        return self._around(f"warmup {key.shape.size} {index + 1}/{count}")

    def capture(self, key: GraphKey) -> object:
        return self._around(f"capture {key.shape.size}")

    def segment(self, index: int) -> object:
        return self._around(f"segment {index}")

    def captured(self, key: GraphKey, graph: object) -> None:
        self.lines.append(f"captured {key.shape.size}")


def test_every_backend_is_under_this_contract() -> None:
    assert set(BACKENDS) == {name for name, _ in PLACES}


def test_the_order_of_one_capture(make: Make, device: Device) -> None:
    log = Log()
    backend = make(observer=log, barrier=lambda: log.lines.append("barrier"))
    x = torch.ones(2, device=device.torch_device)

    def forward() -> torch.Tensor:
        log.lines.append("forward")
        return x + 1

    backend.capture_one(GraphKey.of("R", 2), forward, None, lambda: log.lines.append("hook"))
    warmup = ["barrier", "warmup 2 {}/2", "forward", "warmup 2 {}/2 done", "hook"]
    capture = ["capture 2", "segment 0", "forward", "segment 0 done", "captured 2", "capture 2 done"]
    assert log.lines == [line.format(index) for index in (1, 2) for line in warmup] + capture


def test_without_an_observer_the_calls_are_two_warmups_and_one_capture() -> None:
    module = TapeModule()
    backend = create(
        "full", AcceleratorDevice(module, torch.device("cpu")), barrier=lambda: module.log.append("barrier")
    )
    forward = lambda: module.log.append("forward")  # noqa: E731
    backend.capture_one(GraphKey.of("R", 2), forward, None, lambda: module.log.append("hook"))
    step = ["synchronize", "barrier", "forward", "hook"]
    begin = "begin pool=(0, 1) stream=capture-stream"
    assert module.log == [*step, *step, "graph", begin, "forward", "end"]


def test_graphs_share_one_pool() -> None:
    module = TapeModule()
    backend = create("full", AcceleratorDevice(module, torch.device("cpu")))
    for size in (4, 2):
        backend.capture_one(GraphKey.of("R", size), lambda: torch.ones(1))
    assert [line for line in module.log if "pool" in line] == ["begin pool=(0, 1) stream=capture-stream"] * 2


def test_capture_inputs_reach_the_step_and_the_output_is_static(make: Make, device: Device) -> None:
    backend = make()
    x = torch.ones(3, device=device.torch_device)
    key = GraphKey.of("R", 3)
    output = backend.capture_one(key, lambda a, b: a * b, (x, 3))
    x.fill_(5)
    assert backend.replay(key) is output
    assert output.tolist() == [15, 15, 15]
    assert list(backend.graphs) == list(backend.outputs) == [key]
    backend.close()
    assert not backend.graphs and not backend.outputs


def test_a_step_that_fails_leaves_the_others(make: Make) -> None:
    log = Log()
    backend = make(observer=log)
    backend.capture_one(GraphKey.of("R", 4), lambda: torch.ones(4))

    def broken() -> None:
        raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory"):
        backend.capture_one(GraphKey.of("R", 2), broken)
    assert [key.shape.size for key in backend.graphs] == [4]
    assert log.lines[-1] == "warmup 2 1/2 failed: out of memory"


@pytest.mark.parametrize("name", ["full", "tape", "segmented"])
def test_a_host_read_is_a_capture_error_with_the_op(name: str) -> None:
    backend = create(name, stand_in() if name == "full" else CpuDevice())
    with pytest.raises(CaptureError, match="_local_scalar_dense"):
        backend.capture_one(GraphKey.of("R", 1), lambda: torch.ones(1).item())


def doubling(place: tuple[str, Device], log: Log | None = None) -> GraphRunner:
    backend, device = place
    buffers = {"x": torch.zeros(8, 2, device=device.torch_device)}
    return GraphRunner(lambda x: x * 2, buffers, [4, 1, 8], backend=backend, device=device, observer=log)


def test_a_runner_captures_the_largest_first(place: tuple[str, Device]) -> None:
    log = Log()
    doubling(place, log).capture()
    assert [line for line in log.lines if line.startswith("captured")] == ["captured 8", "captured 4", "captured 1"]
    assert log.lines[0] == "runner DecodeRunner [8, 4, 1]"
    assert log.lines[-1] == "runner DecodeRunner [8, 4, 1] done"


def test_a_batch_runs_on_the_smallest_size_that_fits(place: tuple[str, Device]) -> None:
    runner, device = doubling(place), place[1]
    runner.capture()
    for size, captured, padded in [(1, 1, 0), (2, 4, 2), (4, 4, 0), (5, 8, 3), (9, None, 0)]:
        batch = torch.arange(2.0 * size, device=device.torch_device).view(size, 2)
        result = runner(x=batch)
        assert (result.captured_size, result.padded, result.size) == (captured, padded, size)
        assert torch.equal(result.output, batch * 2)


def test_what_a_batch_does_not_fill_is_padding(place: tuple[str, Device]) -> None:
    (backend, device), where = place, place[1].torch_device
    seen = torch.zeros(4, dtype=torch.long, device=where)
    runner = GraphRunner(
        lambda rows: seen.copy_(rows) + 0, {"rows": torch.arange(4, device=where)}, [4], backend=backend, device=device,
        padding={"rows": torch.arange(4, device=where)},
    )  # fmt: skip
    runner.capture()
    runner(rows=torch.tensor([3], device=where))
    assert seen.tolist() == [3, 1, 2, 3]


@pytest.mark.parametrize(
    ("sizes", "words"), [([], "no size"), ([0], "size 0"), ([-1], "size -1"), ([4, 4], "size 4 is asked for twice")]
)
def test_sizes_that_make_no_sense_are_refused(sizes: list[int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        GraphRunner(lambda x: x, {"x": torch.zeros(8)}, sizes)


def test_a_buffer_that_is_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="holds 2 slots"):
        GraphRunner(lambda x: x, {"x": torch.zeros(2)}, [4])


def test_a_batch_of_differing_sizes_is_refused() -> None:
    runner = GraphRunner(lambda x, y: x + y, {"x": torch.zeros(2), "y": torch.zeros(2)}, [2])
    with pytest.raises(UsageError, match="different sizes"):
        runner(x=torch.zeros(1), y=torch.zeros(2))


@pytest.mark.parametrize("name", ["cuda:99", "quantum", "meta"])
def test_a_device_that_is_not_here_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="device"):
        open_device(name)


def test_capturing_imports_no_profiler_of_ours() -> None:
    code = (
        "import sys, torch\n"
        "from shapescope.graphs.runner import GraphRunner\n"
        "runner = GraphRunner(lambda x: x + 1, {'x': torch.zeros(4)}, [1, 4])\n"
        "runner.capture(); runner(x=torch.ones(2))\n"
        "print([name for name in sys.modules if name.startswith('shapescope.record')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_replay_calls_nothing_but_the_graph() -> None:
    runner = doubling(("tape", CpuDevice()), Log())
    runner.capture()
    called: list[str] = []

    def note(frame: object, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__", "")  # type: ignore[attr-defined]
        if event == "call" and module.startswith(("shapescope", __name__)):
            called.append(frame.f_code.co_name)  # type: ignore[attr-defined]

    sys.setprofile(note)
    try:
        runner.replay(4)
    finally:
        sys.setprofile(None)
    assert [name for name in called if name != "__hash__"] == ["replay", "replay", "replay"]


@pytest.mark.parametrize("device", [stand_in, CpuDevice], ids=["full", "tape"])
def test_a_segmented_capture_breaks_where_the_model_says(device: Callable[[], Device]) -> None:
    log, calls = Log(), []
    backend = create("segmented", device(), observer=log)
    x, lengths = torch.ones(2), torch.tensor([1.0])

    def attention(y: torch.Tensor) -> torch.Tensor:
        calls.append(lengths.item())  # a host read: what no graph can hold
        return y * lengths.item()

    def step() -> torch.Tensor:
        return run_eagerly(attention, x + 1) - 1

    key = GraphKey.of("R", 2)
    output = backend.capture_one(key, step)
    assert [line for line in log.lines if "segment" in line] == [
        "segment 0",
        "segment 0 done",
        "segment 1",
        "segment 1 done",
    ]
    x.fill_(4)
    lengths.fill_(3)
    assert backend.replay(key) is output
    assert output.tolist() == [14, 14]
    assert len(calls) == 4
    graph = backend.graphs[key]
    assert [launch.kernel for launch in graph.launches] == ["aten::add", "aten::sub"]  # type: ignore[attr-defined]


def test_a_failing_segment_closes_its_capture() -> None:
    backend = create("segmented", CpuDevice())

    def step() -> torch.Tensor:
        run_eagerly(lambda: None)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        backend.capture_one(GraphKey.of("R", 1), step)
    assert backend.capture_one(GraphKey.of("R", 2), lambda: torch.ones(2)).tolist() == [1, 1]


def test_a_compiled_step_compiles_in_its_warm_ups_only() -> None:
    stats = torch._dynamo.utils.counters["stats"]
    seen: list[tuple[str, int]] = []

    class Watch(Log):
        @contextmanager
        def _around(self, text: str) -> Iterator[None]:
            before = stats["unique_graphs"]
            yield
            seen.append((text.split(maxsplit=1)[0], stats["unique_graphs"] - before))

    backend = create("compiled", CpuDevice(), observer=Watch())
    inputs = {size: torch.ones(size, 3) for size in range(1, 11)}  # more than torch's default limit of recompilations
    for size, x in inputs.items():
        backend.capture_one(GraphKey.of("R", size), lambda x=x: torch.relu(x) + 1)
    assert sum(count for step, count in seen if step == "warmup") == 10
    assert {count for step, count in seen if step in ("capture", "segment")} == {0}
    inputs[10].fill_(-5)
    assert torch.equal(backend.replay(GraphKey.of("R", 10)), torch.ones(10, 3))
