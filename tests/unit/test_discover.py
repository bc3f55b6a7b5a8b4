"""Functions that launch without an op: wrapped in windows only, found wherever they were imported, never compiled in."""

from __future__ import annotations

import gzip
import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shapescope.device import CpuDevice
from shapescope.graphs.runner import GraphRunner
from shapescope.model import Evidence, GraphKey, ManifestRow, Rank
from shapescope.record import start
from shapescope.record.call_spans import described
from shapescope.record.discover import Discovery
from shapescope.record.profiler import CaptureProfiler
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.manifest import read_manifests
from shapescope.store.spans import Call, Mark, call_name, parse_call, parse_span, span_name

KERNELS = '''
import math
from dataclasses import dataclass
import torch

def attend(q, k, scale=1.0, out=None):
    """Writes memory behind torch's back, as a hand-launched kernel does."""
    out = torch.empty_like(q) if out is None else out
    out.detach().numpy()[:] = q.detach().numpy() * scale
    return out

def broken(q):
    raise ValueError("launch failed")

def _private(q):
    return q

def lazily(q):
    yield q

async def later(q):
    return q

class Wrapper:
    def plan(self, q):
        return attend(q, q)

    def _inner(self, q):
        return q

    @staticmethod
    def helper(q):
        return q
'''


@pytest.fixture
def kernels() -> Iterator[types.ModuleType]:
    """A package of plain functions, `kernels`, with `kernels.ops` below."""
    package, ops = types.ModuleType("kernels"), types.ModuleType("kernels.ops")
    exec(KERNELS, vars(ops))
    package.attend = ops.attend  # type: ignore[attr-defined]
    for module in (package, ops):
        sys.modules[module.__name__] = module
    yield ops
    for name in ("kernels", "kernels.ops"):
        del sys.modules[name]


def recorder(folder: Path, mode: Mode = Mode.PER_SHAPE, *names: str, detail: Detail = Detail.LIGHT) -> CaptureProfiler:
    settings = RecordingSettings(mode, str(folder), detail, discover=names or ("kernels",))
    return start.start(settings, engine="test", device=CpuDevice(), rank=Rank())


@pytest.fixture(autouse=True)
def own_run_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPESCOPE_RUN_ID", "")


def calls(profiler: CaptureProfiler, evidence: Evidence = Evidence.CAPTURE) -> list[Call]:
    profiler.drain()
    found = []
    for _, row in read_manifests(profiler.session.folder):
        assert isinstance(row, ManifestRow)
        if row.file and row.evidence is evidence:
            events = json.loads(gzip.decompress((profiler.session.folder / row.file).read_bytes()))["traceEvents"]
            found += [call for event in events if (call := parse_call(str(event.get("name"))))]
    return found


Q, K = torch.ones(2, 8), torch.ones(4, 8, dtype=torch.bfloat16).T
BOTH = (((2, 8), (8, 4)), ("float", "c10::BFloat16"), ((8, 1), (1, 8)))


def test_a_call_in_a_window_carries_its_tensors(tmp_path: Path, kernels: Any) -> None:
    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 2)):
        kernels.attend(Q, K)
        kernels.attend(Q, k=[K], scale=2.0)
        kernels._private(Q)
        kernels.Wrapper().plan(Q)
        kernels.Wrapper().helper(Q)
        list(kernels.lazily(Q))
    title, wrapper = "kernels.ops.attend", "kernels.ops.Wrapper.plan"
    one, two = (((2, 8),), ("float",), ((8, 1),)), (((2, 8), (2, 8)), ("float", "float"), ((8, 1), (8, 1)))
    assert calls(profiler) == [Call(title, *BOTH), Call(title, *BOTH), Call(wrapper, *one), Call(title, *two)]


@pytest.mark.parametrize("mode", [Mode.PER_SHAPE, Mode.COMBINED])
def test_outside_windows_nothing_is_replaced(tmp_path: Path, kernels: Any, mode: Mode) -> None:
    before = {**vars(kernels), "method": kernels.Wrapper.plan}
    profiler = recorder(tmp_path, mode)
    seen = []
    with pytest.raises(RuntimeError, match="host"), profiler.runner("R"), profiler.window(GraphKey.of("R", 2)):
        seen = [kernels.attend, kernels.Wrapper.plan, sys.modules["kernels"].attend]
        raise RuntimeError("the host's own")
    assert all(hasattr(function, "shapescope_discovered") for function in seen)
    assert {**vars(kernels), "method": kernels.Wrapper.plan} == before
    assert sys.modules["kernels"].attend is kernels.attend  # type: ignore[attr-defined]


def test_a_name_imported_elsewhere_is_replaced_too(tmp_path: Path, kernels: Any, monkeypatch: Any) -> None:
    model = types.ModuleType("model_of_somebody")
    model.attention = kernels.attend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "model_of_somebody", model)
    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 2)):
        model.attention(Q, K)  # type: ignore[attr-defined]
    assert calls(profiler) == [Call("kernels.ops.attend", *BOTH)]
    assert model.attention is kernels.attend  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "found"), [("kernels.ops.attend", 1), ("kernels.ops", 1), ("kernel", 0), ("kernels.missing", 0), ("os.nothing", 0)]
)  # fmt: skip
def test_names(tmp_path: Path, kernels: Any, name: str, found: int) -> None:
    profiler = recorder(tmp_path, Mode.PER_SHAPE, name)
    with profiler.window(GraphKey.of("R", 2)):
        kernels.attend(Q, K)
    assert len(calls(profiler)) == found


def test_a_module_imported_later_is_found_in_the_next_window(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 4)):
        pass
    kernels = request.getfixturevalue("kernels")
    with profiler.window(GraphKey.of("R", 2)):
        kernels.attend(Q, K)
    assert len(calls(profiler)) == 1


def test_the_hosts_exception_and_the_span_are_over(tmp_path: Path, kernels: Any) -> None:
    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 2)):
        with pytest.raises(ValueError, match="launch failed") as caught:
            kernels.broken(Q)
        kernels.attend(Q, K)
    assert caught.value.__context__ is None
    assert [call.function for call in calls(profiler)] == ["kernels.ops.broken", "kernels.ops.attend"]


def test_what_cannot_be_described_is_called_all_the_same(tmp_path: Path, kernels: Any) -> None:
    class Odd(list):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[Any]:
            raise TypeError("no list after all")

    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 2)):
        assert torch.equal(kernels.attend(Q, Odd()), Q)
    assert calls(profiler) == []


def test_replays_run_nothing_of_ours(tmp_path: Path, kernels: Any) -> None:
    profiler = recorder(tmp_path)
    runner = GraphRunner(lambda x: kernels.attend(x, x) + 1, {"x": torch.ones(2, 8)}, [2], observer=profiler)
    runner.capture()
    attend = kernels.attend
    with profiler.window(runner.keys[0], Evidence.REPLAY):
        assert kernels.attend is attend
        runner.replay(2)
    assert len(calls(profiler)) == 1 and calls(profiler, Evidence.REPLAY) == []


def test_a_foreign_profiler_gets_no_spans_of_ours(tmp_path: Path, kernels: Any) -> None:
    profiler = recorder(tmp_path)
    with torch.profiler.profile() as foreign, profiler.window(GraphKey.of("R", 2)):
        kernels.attend(Q, K)
    assert not [event for event in foreign.events() or () if event.name.startswith("shapescope.call")]


def test_a_compiler_never_keeps_a_wrapper(tmp_path: Path, kernels: Any, caplog: pytest.LogCaptureFixture) -> None:
    compiled = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    kernels.double = double = lambda x: x * 2
    double.__module__ = "kernels.ops"
    step = torch.compile(lambda x: kernels.double(x) + 1, backend=backend)
    before = step(Q)
    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 2)):
        assert kernels.double is not double
        inside = step(Q)
        assert kernels.double is double
    count = len(compiled)
    for size in (2, 1):
        with profiler.window(GraphKey.of("R", size)):
            assert kernels.double is double
            step(Q)
    assert len(compiled) == count <= 2
    assert torch.equal(inside, before)
    assert caplog.text.count("torch.compile is at work") == 1


@pytest.mark.parametrize("kind", ["chain", "function", "attribute"])
def test_triton_tells_of_its_launches(tmp_path: Path, kernels: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Over a stand-in that calls the hooks where Triton does; its three kinds of hooks are those of 3.9, 3.4 and 3.2."""
    others: list[str] = []
    hooks = types.SimpleNamespace() if kind != "attribute" else type("CompiledKernel", (), {})
    for name in ("launch_enter_hook", "launch_exit_hook"):
        setattr(hooks, name, Chain() if kind == "chain" else (lambda metadata, name=name: others.append(name)))
    before = {name: getattr(hooks, name) for name in ("launch_enter_hook", "launch_exit_hook")}

    class JITFunction:
        def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
            metadata = types.SimpleNamespace(data={"name": "_fwd_kernel", "stream": 0})
            hooks.launch_enter_hook(metadata)
            args[0].detach().numpy()[:] = 3
            hooks.launch_exit_hook(metadata)

    modules: dict[str, Any] = {"triton": types.SimpleNamespace(), "triton.runtime.jit": types.SimpleNamespace()}
    modules["triton.runtime.jit"].JITFunction = JITFunction
    if kind == "attribute":
        modules["triton.compiler"] = types.SimpleNamespace(CompiledKernel=hooks)
    else:
        modules["triton"].knobs = types.SimpleNamespace(runtime=hooks)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    run = JITFunction.run
    profiler = recorder(tmp_path)
    with profiler.window(GraphKey.of("R", 2)):
        JITFunction().run(torch.ones(2, 8), 8, K, grid=(1,), warmup=False)
    assert calls(profiler) == [Call("_fwd_kernel", *BOTH)]
    assert JITFunction.run is run
    assert {name: getattr(hooks, name) for name in before} == before
    assert all(not chain.calls for chain in before.values() if isinstance(chain, Chain))
    assert others == ([] if kind == "chain" else ["launch_enter_hook", "launch_exit_hook"])


class Chain:
    """As `triton.knobs.HookChain`."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def add(self, hook: Any) -> None:
        self.calls.append(hook)

    def remove(self, hook: Any) -> None:
        self.calls.remove(hook)

    def __call__(self, metadata: Any) -> None:
        for hook in self.calls:
            hook(metadata)


def test_without_names_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Discovery, "_find", lambda self: pytest.fail("looked"))
    discovery = Discovery(())
    discovery.wrap()
    discovery.unwrap()


def test_a_call_over_many_tensors_names_the_first() -> None:
    assert len(described("f", ([Q] * 100,), {}).dims) == 16


shapes = st.lists(st.lists(st.integers(0, 1 << 40), max_size=4).map(tuple), max_size=3).map(tuple)


@given(st.builds(Call, st.text(min_size=1), shapes, st.lists(st.text(), max_size=3).map(tuple), shapes))
def test_a_call_reads_back_from_its_span(call: Call) -> None:
    text = call_name(call)
    assert parse_call(text) == call
    assert not set(text) & set("\"\\'<>\n\t")
    assert parse_span(text) is None


@pytest.mark.parametrize(
    "text", ["", "shapescope.call ", "shapescope.call function=f", "shapescope.call function=f&dims=3"]
)
def test_what_is_no_call(text: str) -> None:
    assert parse_call(text) is None
    assert parse_call(span_name(Mark.CAPTURE, GraphKey.of("R", 1))) is None
