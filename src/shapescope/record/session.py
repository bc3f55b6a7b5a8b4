"""One process's part of a run: which folder, which rank, which manifest. All ranks of a start-up share one run id."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shapescope.device import Device
from shapescope.model import GraphKey, ManifestRow, Rank, RunManifest
from shapescope.record.environment import describe_environment
from shapescope.settings import RecordingSettings
from shapescope.store.layout import RUN_ID_VARIABLE, TRACE_FOLDER, new_run_id, root_folder, run_folder
from shapescope.store.manifest import ManifestWriter, write_run

log = logging.getLogger("shapescope")

_ABSENT = frozenset({"", "none"})


@dataclass(frozen=True, slots=True)
class Session:
    """Where this process writes. `folder` is the run's; traces go below it."""

    folder: Path
    run_id: str
    rank: Rank

    @property
    def traces(self) -> Path:
        return self.folder / TRACE_FOLDER

    def append(self, *rows: ManifestRow) -> None:
        """Raises OSError."""
        ManifestWriter(self.folder, self.rank, platform.node(), os.getpid()).append(*rows)


def open_session(
    settings: RecordingSettings,
    *,
    rank: Rank | None = None,
    engine: str,
    model: str | None = None,
    requested: Sequence[GraphKey] = (),
    device: Device,
    environment: MutableMapping[str, str] | None = None,
) -> Session:
    """Agree on the run's folder and, on rank 0, write `run.json`. Raises OutputError where that cannot be written."""
    environment = os.environ if environment is None else environment
    rank = rank or current_rank(environment)
    run_id = agree_on_run_id(environment, _broadcast())
    session = Session(run_folder(root_folder(environment, settings.folder), run_id), run_id, rank)
    if rank.rank == 0:
        run = RunManifest(
            run_id=session.run_id,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            engine=engine,
            model=model,
            requested=tuple(requested),
            world_size=rank.world_size,
            mode=settings.mode,
            detail=settings.detail,
            environment=describe_environment(device),
        )
        write_run(session.folder, run)
    return session


def agree_on_run_id(environment: MutableMapping[str, str], broadcast: Callable[[str], str] | None = None) -> str:
    """The run id that all ranks share: inherited, else torchrun's, else broadcast from rank 0, else this process's own.

    It is put into the environment, so that children inherit it. Several nodes without any of these get a folder each.
    """
    run_id = environment.get(RUN_ID_VARIABLE, "")
    if run_id.lower() in _ABSENT:
        run_id = environment.get("TORCHELASTIC_RUN_ID", "")
    if run_id.lower() in _ABSENT:
        run_id = broadcast(new_run_id()) if broadcast is not None else new_run_id()
    environment[RUN_ID_VARIABLE] = run_id
    return run_id


def _broadcast() -> Callable[[str], str] | None:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return None

    def from_rank_0(own: str) -> str:
        ids: list[Any] = [own]
        dist.broadcast_object_list(ids, src=0)
        shared: str = ids[0]
        return shared

    return from_rank_0


def current_rank(environment: MutableMapping[str, str]) -> Rank:
    """This process's rank by torchrun's variables: all that is known without an engine is a flat, tensor parallel world."""
    number, world = environment.get("RANK", "0"), environment.get("WORLD_SIZE", "1")
    if not (number.isdigit() and world.isdigit()):
        log.warning("RANK=%r of WORLD_SIZE=%r is no rank; recording as rank 0 of 1", number, world)
        return Rank()
    return Rank(rank=int(number), tp=int(number), tp_size=int(world), world_size=int(world))


def at_rank(session: Session, rank: Rank | None) -> Session:
    """The same run seen from another rank, where an engine knows more than the environment did."""
    return session if rank is None or rank == session.rank else replace(session, rank=rank)
