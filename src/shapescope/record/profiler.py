"""The recorder: an observer of captures that opens one profiler window per explicit key.

Invariant: the host is never hurt. What fails on our side is logged, put in the manifest and swallowed (`_guarded`), while
the host's own exceptions pass through unchanged; a profiler that was started is stopped whatever happens.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch.profiler import ProfilerActivity

from shapescope.device import Device, Graph
from shapescope.model import Evidence, GraphKey, ManifestRow, Rank, Status, Timing
from shapescope.record.evidence import activities, default_evidence, write_nodes
from shapescope.record.export import Exported, publish_trace, save_raw
from shapescope.record.exporter import Exporter
from shapescope.record.guard import Guard, log
from shapescope.record.memory import MemoryHistory, memory_between
from shapescope.record.recording import Recording
from shapescope.record.session import Session, at_rank
from shapescope.record.tally import Tally, render
from shapescope.record.window import Window, profiler_active
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.layout import combined_name, publish, summary_name
from shapescope.store.spans import Mark, segment_name, span_name

# A raw trace above this was Python-heavy inside its window: later windows record without stacks.
HEAVY_TRACE_BYTES = 256 << 20


class CaptureProfiler:
    """Records what it is told of. A `graphs.observer.CaptureObserver`; engines' adapters use `runner` and `window`."""

    def __init__(self, session: Session, settings: RecordingSettings, device: Device) -> None:
        self.session = session
        self.settings = settings
        self.device = device
        self.evidence = settings.evidence or default_evidence(device.kind)
        self._detail = settings.detail
        self._total = Tally()
        self._warmups: dict[GraphKey, list[int]] = {}
        self._sequence = 0
        self._captures = 0
        self._recording: Recording | None = None
        self._combined: Window | None = None
        self._exporter = Exporter()
        if settings.combined_won:
            log.warning("both trace switches are set: the combined trace wins, no per-shape traces are written")

    # What a runner tells of its captures.

    @contextmanager
    def runner(self, name: str, keys: Sequence[GraphKey] = ()) -> Iterator[None]:
        """Around all captures of one runner. Its keys count as missing until their windows have ended."""
        guard = Guard(f"recording {name}")
        with guard:
            for key in keys:
                self.session.append(ManifestRow(key, self.session.rank, Evidence.CAPTURE, 0, Status.MISSING))
        history = MemoryHistory(self.device, self.session, name)
        history.start()
        self._total = Tally()
        self._open_combined(name)
        try:
            yield
        finally:
            self._close_combined(name)
            history.stop()
            self.drain()
            self._write_summary(name)

    @contextmanager
    def warmup(self, key: GraphKey, index: int, count: int) -> Iterator[None]:
        wanted = index == count - 1 and Evidence.WARMUP in self.evidence
        times = self._warmups.setdefault(key, [])
        if index == 0:
            times.clear()
        begin = time.perf_counter_ns()
        with self.window(key, Evidence.WARMUP) if wanted else nullcontext():
            yield
        times.append(time.perf_counter_ns() - begin)

    def capture(self, key: GraphKey) -> AbstractContextManager[None]:
        return self.window(key, Evidence.CAPTURE)

    def segment(self, index: int) -> AbstractContextManager[object]:
        return torch.profiler.record_function(segment_name(index)) if profiler_active() else nullcontext()

    def replay(self, key: GraphKey) -> AbstractContextManager[object]:
        """Around one of several replays in a window, so that a reader tells them apart."""
        return torch.profiler.record_function(span_name(Mark.REPLAY, key)) if profiler_active() else nullcontext()

    def captured(self, key: GraphKey, graph: Graph) -> None:
        """Keep the graph until its window has closed: reading it takes time that no window should show."""
        if self._recording is not None and self._recording.key == key:
            self._recording.graph = graph

    # One window.

    @contextmanager
    def window(
        self,
        key: GraphKey | None,
        evidence: Evidence = Evidence.CAPTURE,
        *,
        rank: Rank | None = None,
        timing: Timing | None = None,
    ) -> Iterator[None]:
        """Record what the body does as one kind of evidence for one key. Without a key it is kept as unlabelled."""
        recording = Recording(key, evidence, at_rank(self.session, rank), self._sequence, timing)
        self._sequence += 1
        outer, self._recording = self._recording, recording
        try:
            self._begin(recording)
            yield
        except BaseException as error:
            recording.ended()
            recording.fail(f"{type(error).__name__}: {error}".strip(": "))
            self._stop(recording)
            self._leave(recording)
            raise
        finally:
            self._recording = outer
        recording.ended()
        self._finish(recording)

    def _begin(self, recording: Recording) -> None:
        recording.begins()
        with recording.guard("opening the profiler"):
            if recording.evidence is Evidence.CAPTURE:
                recording.order = self._captures
                self._captures += 1
                recording.memory_before = self.device.memory()
            if self._combined is not None:
                recording.span = torch.profiler.record_function(span_name(recording.mark, recording.key))
                recording.span.__enter__()
            elif profiler_active():
                recording.fail("another profiler is active")
                log.warning("%s is not recorded: another profiler is active", recording.label)
            elif self.settings.mode in (Mode.PER_SHAPE, Mode.SUMMARY):
                self._exporter.settle()
                recording.window = Window.open(self._detail_now(), self._activities(recording.evidence))
                recording.window.enter(recording.mark, recording.identity(self.session.run_id))
        recording.started()

    def _finish(self, recording: Recording) -> None:
        try:
            self._measure_memory(recording)
            self._stop(recording)
            if self._combined is None:  # its profiler still records: reading a graph would stand in the trace
                self._read_graph(recording)
        except BaseException as error:  # an interrupt in our own work is the host's, after a word in the manifest
            recording.fail(f"interrupted by {type(error).__name__}")
            raise
        finally:
            self._leave(recording)

    def _stop(self, recording: Recording) -> None:
        begin = time.perf_counter_ns()
        with recording.guard("stopping the profiler"):
            if recording.span is not None:
                recording.span.__exit__(None, None, None)
            if recording.window is not None:
                recording.window.stop()
        recording.record_ns += time.perf_counter_ns() - begin

    def _read_graph(self, recording: Recording) -> None:
        with recording.guard("listing the graph's kernels"):
            recording.count_launches()
            if Evidence.NODES in self.evidence and recording.evidence is Evidence.CAPTURE:
                write_nodes(recording)

    def _leave(self, recording: Recording) -> None:
        """Hand the window to the exporter, which ends with its manifest row."""
        warmups = tuple(self._warmups.get(recording.key, ())) if recording.key is not None else ()
        with Guard(f"leaving {recording.label}"):
            self._exporter.submit(partial(self._save, recording), partial(self._publish, recording, warmups))

    def _save(self, recording: Recording) -> None:
        window, recording.window = recording.window, None
        if window is None or recording.failed:
            return
        begin = time.perf_counter_ns()
        with recording.guard("saving the trace"):
            recording.saved = save_raw(window.profiler, recording.session.traces)
        recording.export_ns = time.perf_counter_ns() - begin

    def _publish(self, recording: Recording, warmups: tuple[int, ...]) -> None:
        if recording.saved is not None:
            begin = time.perf_counter_ns()
            with recording.guard("writing the trace"):
                named = self.settings.mode is Mode.PER_SHAPE
                exported = publish_trace(
                    recording.saved, recording.session.traces, recording.file_name if named else None
                )
                recording.published(exported)
                self._total.add(exported.tally)
                self._weigh(recording, exported)
            recording.export_ns = (recording.export_ns or 0) + time.perf_counter_ns() - begin
        with Guard(f"the manifest of {recording.label}"):
            recording.session.append(recording.row(warmups))

    def _weigh(self, recording: Recording, exported: Exported) -> None:
        if exported.raw_bytes > HEAVY_TRACE_BYTES and self._detail is Detail.FULL:
            self._detail = Detail.LIGHT
            log.warning(
                "%s made %d MB of trace: later windows have no stacks", recording.label, exported.raw_bytes >> 20
            )

    def drain(self) -> None:
        """Wait until every window that has ended is on disk, its manifest row too."""
        with Guard("waiting for the exporter"):
            self._exporter.drain()

    def _measure_memory(self, recording: Recording) -> None:
        if recording.evidence is not Evidence.CAPTURE or recording.memory_before is None:
            return
        with recording.guard("reading memory"):
            recording.memory = memory_between(recording.order, recording.memory_before, self.device.memory())

    def _activities(self, evidence: Evidence) -> frozenset[ProfilerActivity]:
        return activities(self.device.kind, evidence, self.settings.device_activity)

    def _detail_now(self) -> Detail:
        return Detail.LIGHT if self.settings.mode is Mode.SUMMARY else self._detail

    # What concerns a whole runner.

    def _open_combined(self, name: str) -> None:
        if self.settings.mode is not Mode.COMBINED:
            return
        with Guard(f"the combined trace of {name}"):
            if profiler_active():
                log.warning("%s is not recorded: another profiler is active", name)
            else:
                self._combined = Window.open(self._detail, self._activities(Evidence.CAPTURE))

    def _close_combined(self, name: str) -> None:
        window, self._combined = self._combined, None
        if window is None:
            return
        rank, begin = self.session.rank, time.perf_counter_ns()
        with Guard(f"the combined trace of {name}") as guard:
            window.stop()
            saved = save_raw(window.profiler, self.session.traces)
            exported = publish_trace(saved, self.session.traces, lambda n: combined_name(name, rank, duplicate=n))
            self._total.add(exported.tally)
        with Guard("the manifest"):
            if guard.reason is None:
                assert exported.path is not None
                row = ManifestRow(
                    None, rank, Evidence.CAPTURE, 0, Status.OK, runner=name, bytes=exported.bytes,
                    file=str(exported.path.relative_to(self.session.folder)), export_ns=time.perf_counter_ns() - begin,
                )  # fmt: skip
            else:
                row = ManifestRow(None, rank, Evidence.CAPTURE, 0, Status.FAILED, runner=name, reason=guard.reason)
            self.session.append(row)

    def _write_summary(self, name: str) -> None:
        with Guard(f"the summary of {name}"):
            text = render(self._total)
            log.info("capture of %s\n%s", name, text)
            publish(
                self.session.folder,
                lambda n: summary_name(name, self.session.rank, duplicate=n),
                lambda path: path.write_text(text + "\n"),
            )
