"""Continuous batching over captured sizes: requests come and go between steps, and always occupy the first rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from shapescope.engines.decode.engine import DecodeEngine, Request
from shapescope.graphs.runner import StepResult


class Scheduler:
    """Admits requests as rows come free, decodes all of them each step, and fills a finished one's row with the last.

    Invariant: request `i` of `running` stands in row `i`, so that a batch is a view of the first rows.
    """

    def __init__(self, engine: DecodeEngine) -> None:
        self._engine = engine
        self._waiting: deque[Request] = deque()
        self.running: list[Request] = []

    def submit(self, requests: Iterable[Request]) -> None:
        self._waiting.extend(requests)

    @property
    def idle(self) -> bool:
        return not self._waiting and not self.running

    def step(self) -> StepResult | None:
        """Admit, decode one token for each running request, retire. None where nothing had to be decoded."""
        self._admit()
        result = self._engine.decode(self.running) if self.running else None
        self._retire()
        return result

    def run(self) -> None:
        """Step until every request is done."""
        while not self.idle:
            self.step()

    def _admit(self) -> None:
        while self._waiting and len(self.running) < self._engine.cache.rows:
            request = self._waiting.popleft()
            self._engine.prefill(request, len(self.running))
            self.running.append(request)
            self._retire()

    def _retire(self) -> None:
        for row in reversed(range(len(self.running))):
            if self._finished(self.running[row]):
                last = self.running.pop()
                if row < len(self.running):
                    self._engine.cache.move(len(self.running), row)
                    self.running[row] = last

    def _finished(self, request: Request) -> bool:
        ends = request.output[-1] in self._engine.end_tokens
        return ends or len(request.output) >= request.max_new_tokens
