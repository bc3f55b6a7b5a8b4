"""The recorder: an observer of captures that opens one profiler window per explicit key.

Invariant: the host is never hurt. What fails on our side is logged, put in the manifest and swallowed (`_guarded`), while
the host's own exceptions pass through unchanged; a profiler that was started is stopped whatever happens.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch.profiler import ProfilerActivity

from shapescope.device import Device, Graph
from shapescope.model import Evidence, GraphKey, ManifestRow, Rank, Status, Timing
from shapescope.record.discover import Discovery
from shapescope.record.evidence import activities, default_evidence, write_nodes
from shapescope.record.export import TooLargeError, publish_trace, save_raw
from shapescope.record.exporter import Exporter
from shapescope.record.guard import Guard, log
from shapescope.record.hooks import ignoring
from shapescope.record.memory import MemoryHistory, memory_between
from shapescope.record.nodes import graph_nodes
from shapescope.record.recording import Recording
from shapescope.record.session import Session, at_rank
from shapescope.record.tally import Tally, render
from shapescope.record.window import ForeignThreadError, Window, profiler_active
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.layout import combined_name, publish, summary_name
from shapescope.store.spans import Mark, segment_name, span_name

# A raw trace above either was Python-heavy inside its window: later windows record without stacks.
HEAVY_TRACE_BYTES = 256 << 20
HEAVY_TRACE_EVENTS = 1_000_000


class _Here(threading.local):
    """The window that is open on this thread: captures may run on several."""

    recording: Recording | None = None


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
        self._sequence = itertools.count()
        self._captures = itertools.count()
        self._here = _Here()
        self._announced: set[tuple[Rank, GraphKey]] = set()
        self._abandoned: list[Window] = []
        self._combined: Window | None = None
        self._discovery = Discovery(settings.discover)
        self._exporter = Exporter()
        if settings.combined_won:
            log.warning("both trace switches are set: the combined trace wins, no per-shape traces are written")

    # What a runner tells of its captures.

    @contextmanager
    def runner(self, name: str, keys: Sequence[GraphKey] = ()) -> Iterator[None]:
        """Around all captures of one runner. Its keys count as missing until their windows have ended."""
        guard = Guard(f"recording {name}")
        with guard:
            self._announce(keys, self.session)
        history = MemoryHistory(self.device, self.session, name)
        history.start()
        outer, self._total = self._total, Tally()
        self._open_combined(name)
        try:
            yield
        finally:
            self._close_combined(name)
            self.drain()
            history.stop()
            self.summarise(name)
            self._total = outer

    @contextmanager
    def warmup(self, key: GraphKey, index: int, count: int) -> Iterator[None]:
        wanted = index == count - 1 and Evidence.WARMUP in self.evidence
        times = self._warmups.setdefault(key, [])
        if index == 0:
            times.clear()
        with self.window(key, Evidence.WARMUP) if wanted else nullcontext():
            begin = time.perf_counter_ns()
            yield
            times.append(time.perf_counter_ns() - begin)

    def capture(self, key: GraphKey) -> AbstractContextManager[None]:
        return self.window(key, Evidence.CAPTURE)

    def segment(self, index: int) -> AbstractContextManager[object]:
        return torch.profiler.record_function(segment_name(index)) if profiler_active() else nullcontext()

    def replay(self, key: GraphKey) -> AbstractContextManager[object]:
        """Around one of several replays in a window, so that a reader tells them apart."""
        return torch.profiler.record_function(span_name(Mark.REPLAY, key)) if profiler_active() else nullcontext()

    def captured(self, key: GraphKey | None, graph: Graph) -> None:
        """Keep the graph until its window has closed: reading it takes time that no window should show."""
        recording = self._here.recording
        if recording is not None and recording.key == key:
            recording.graph = graph

    def closing(self, graph: Graph) -> None:
        """A graph whose handle is live now and may be gone when its window closes: read its nodes."""
        recording = self._here.recording
        if recording is not None and Evidence.NODES in self.evidence:
            recording.nodes = graph_nodes(graph)

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
        recording = Recording(key, evidence, at_rank(self.session, rank), next(self._sequence), timing)
        here = self._here
        outer, here.recording = here.recording, recording
        try:
            self._begin(recording)
            with ignoring():
                yield
        except BaseException as error:
            recording.ended()
            recording.fail(f"{type(error).__name__}: {error}".strip(": "))
            self._stop(recording)
            self._leave(recording)
            raise
        finally:
            here.recording = outer
        recording.ended()
        self._finish(recording)

    def _begin(self, recording: Recording) -> None:
        recording.begins()
        self._stop_abandoned()
        if recording.evidence is Evidence.CAPTURE:
            with Guard(f"the manifest of {recording.label}"):
                self._announce([recording.key] if recording.key else [], recording.session)
        with recording.guard("opening the profiler"):
            if recording.evidence is Evidence.CAPTURE:
                recording.order = next(self._captures)
                recording.memory_before = self.device.memory()
            if self._combined is not None:
                self._mark_in_combined(recording, self._combined)
            elif self.settings.mode in (Mode.PER_SHAPE, Mode.SUMMARY):
                self._open(recording)
        recording.started()

    def _open(self, recording: Recording) -> None:
        recording.window = Window.of(self._detail_of(recording.evidence), self._activities(recording.evidence))
        recording.discovering = recording.evidence is not Evidence.REPLAY  # its functions do not run then
        if recording.discovering:
            self._discovery.wrap()
        if recording.window.start():
            recording.window.enter(recording.mark, recording.identity(self.session.run_id))
        else:
            self._end_discovery(recording)
            recording.fail("another profiler is active")
            log.warning("%s is not recorded: another profiler is active", recording.label)

    def _mark_in_combined(self, recording: Recording, combined: Window) -> None:
        """A profiler records the thread that started it, and no other."""
        if combined.thread != threading.get_ident():
            recording.fail("captured on another thread than the combined trace of its runner")
            return
        recording.span = torch.profiler.record_function(span_name(recording.mark, recording.key))
        recording.span.__enter__()

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
                self._stop_window(recording.window)
        self._end_discovery(recording)
        recording.record_ns += time.perf_counter_ns() - begin

    def _end_discovery(self, recording: Recording) -> None:
        if recording.discovering:
            recording.discovering = False
            self._discovery.unwrap()

    def _stop_window(self, window: Window) -> None:
        """A profiler can only be stopped on its own thread: elsewhere it is left until that thread comes by again."""
        try:
            window.stop()
        except ForeignThreadError:
            self._abandoned.append(window)
            raise
        except BaseException:  # an interrupt is the host's to handle, but no profiler may go on behind its back
            window.stop()
            raise

    def _stop_abandoned(self) -> None:
        for window in [window for window in self._abandoned if window.thread == threading.get_ident()]:
            self._abandoned.remove(window)
            with Guard("stopping the profiler of a capture that ended on another thread"):
                window.stop()

    def _announce(self, keys: Sequence[GraphKey], session: Session) -> None:
        """A shape is missing until its window has ended: so a process that is killed leaves it named. Raises OSError."""
        new = [key for key in keys if (session.rank, key) not in self._announced]
        if new:
            session.append(*(ManifestRow(key, session.rank, Evidence.CAPTURE, 0, Status.MISSING) for key in new))
            self._announced.update((session.rank, key) for key in new)

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
                try:
                    exported = publish_trace(
                        recording.saved, recording.session.traces, recording.file_name if named else None
                    )
                except TooLargeError:
                    self._lighten(recording)
                    raise
                recording.published(exported)
                self._total.add(exported.tally)
                if exported.raw_bytes > HEAVY_TRACE_BYTES or exported.events > HEAVY_TRACE_EVENTS:
                    self._lighten(recording)
            recording.export_ns = (recording.export_ns or 0) + time.perf_counter_ns() - begin
        with Guard(f"the manifest of {recording.label}"):
            recording.session.append(recording.row(warmups))

    def _lighten(self, recording: Recording) -> None:
        if self._detail is Detail.FULL:
            self._detail = Detail.LIGHT
            log.warning("%s made a very large trace: later windows record no stacks", recording.label)

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

    def _detail_of(self, evidence: Evidence) -> Detail:
        """A replay runs no model code: its stacks would tell of the replay's own, and slow it down."""
        light = self.settings.mode is Mode.SUMMARY or evidence is Evidence.REPLAY
        return Detail.LIGHT if light else self._detail

    # What concerns a whole runner.

    def _open_combined(self, name: str) -> None:
        if self.settings.mode is not Mode.COMBINED:
            return
        with Guard(f"the combined trace of {name}"):
            self._combined = Window.of(self._detail, self._activities(Evidence.CAPTURE))
            if self._combined.start():
                self._discovery.wrap()
            else:
                self._combined = None
                log.warning("%s is not recorded: another profiler is active", name)

    def _close_combined(self, name: str) -> None:
        window, self._combined = self._combined, None
        if window is None:
            return
        rank, begin = self.session.rank, time.perf_counter_ns()
        with Guard(f"the combined trace of {name}") as guard:
            self._discovery.unwrap()
            self._stop_window(window)
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

    def summarise(self, name: str) -> None:
        """Tables of the heaviest operations over all that was recorded since the runner began."""
        self.drain()
        with Guard(f"the summary of {name}"):
            text = render(self._total)
            log.info("capture of %s\n%s", name, text)
            publish(
                self.session.folder,
                lambda n: summary_name(name, self.session.rank, duplicate=n),
                lambda path: path.write_text(text + "\n"),
            )
