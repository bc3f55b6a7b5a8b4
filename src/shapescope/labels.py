"""What a program says of its own captures: `with shapescope.shape("DecodeRunner", 8)`, and which shapes will come.

With recording off a label costs a context variable and nothing else. It holds for one thread: a capture in another
thread has no label, unless that thread sets one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from shapescope.errors import UsageError
from shapescope.model import GraphKey, Phase, Shape, Unit
from shapescope.store.layout import default_phase

Announce = Callable[[str, Sequence[GraphKey]], AbstractContextManager[None]]

_label: ContextVar[GraphKey | None] = ContextVar("shapescope.shape", default=None)
_listeners: list[Announce] = []


@contextmanager
def shape(
    runner: str,
    size: int,
    *variants: str,
    unit: Unit | str = Unit.REQUESTS,
    phase: Phase | str | None = None,
) -> Iterator[GraphKey]:
    """Captures of this thread in the body are graphs of `runner` at `size`, which counts `unit` (requests or tokens).

    `variants` tell apart graphs of one size, such as `"lora"` or `"stream=1"`. Without `phase` it is what the runner's
    name implies. Raises UsageError for what is no shape, whether anything is recorded or not.
    """
    key = _key(runner, size, variants, unit, phase)
    token = _label.set(key)
    try:
        yield key
    finally:
        _label.reset(token)


@contextmanager
def runner(
    name: str,
    sizes: Sequence[int],
    *variants: str,
    unit: Unit | str = Unit.REQUESTS,
    phase: Phase | str | None = None,
) -> Iterator[None]:
    """Around all captures of one runner: its `sizes` count as missing until each has been captured.

    It also bounds what concerns a whole runner: a combined trace, the summary tables, timed replays.
    """
    keys = [_key(name, size, variants, unit, phase) for size in sizes]
    if not _listeners:
        yield
        return
    with _listeners[-1](name, keys):
        yield


def current_shape() -> GraphKey | None:
    """The innermost label of this thread; None where it has none."""
    return _label.get()


def listen(announce: Announce) -> Callable[[], None]:
    """Let a recorder take part in `runner`; returns what ends that."""
    _listeners.append(announce)
    return lambda: _listeners.remove(announce)


def _key(runner: str, size: int, variants: tuple[str, ...], unit: Unit | str, phase: Phase | str | None) -> GraphKey:
    if size < 1:
        raise UsageError(f"{size} is no size of a shape of {runner}", "Sizes count requests or tokens: pass 1 or more.")
    try:
        counted = Unit(unit)
        meant = default_phase(runner, counted) if phase is None else Phase(phase)
    except ValueError as error:
        raise UsageError(
            f"a shape of {runner}: {error}", f"Units: {', '.join(Unit)}. Phases: {', '.join(Phase)}."
        ) from error
    return GraphKey(runner, Shape(size, counted, variants), meant)
