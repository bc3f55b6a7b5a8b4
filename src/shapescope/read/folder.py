"""Which files of a folder are read as traces, and what lies beside them: run files, manifests, node lists."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shapescope.errors import InputError
from shapescope.model import GraphKey, ManifestRow, RunManifest, from_plain
from shapescope.read.foreign import DETAILS_FILE
from shapescope.store.layout import CACHE_FOLDER, REPORT_FILE, RUN_FILE
from shapescope.store.manifest import read_manifests, read_run

NODES_SUFFIX = ".nodes.json"
_BESIDE = re.compile(
    rf"{re.escape(RUN_FILE)}|{re.escape(REPORT_FILE)}|manifest\..*\.jsonl|{re.escape(DETAILS_FILE)}|memory_snapshot-.*\.pickle|summary-.*\.txt"
)
# Folders in which engines keep one kind of a run's traces: the run is what holds them.
_KIND_FOLDER = re.compile(
    r"captures?|capture_traces|graph_capture_profile|replays?|traces?|serving|profiles?|(?:dp|tp|pp|ep|rank)[-_]?\d+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a captured graph, as `<stem>.nodes.json` lists it."""

    id: int
    kind: str
    kernel: str | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_memory: int | None = None
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeList:
    """The nodes of one captured graph."""

    key: GraphKey | None
    nodes: tuple[Node, ...]
    schema: int = 1


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run within what was opened: its files in order of name, and the recorder's own account where there is one."""

    root: Path
    traces: tuple[Path, ...]
    node_lists: tuple[Path, ...]
    manifest: RunManifest | None = None
    rows: tuple[ManifestRow, ...] = ()
    errors: tuple[InputError, ...] = ()


def run_folders(path: Path) -> list[RunFolder]:
    """Every run at or below a path, in order of name. Raises InputError where the path itself cannot be read."""
    if path.is_file():
        return [RunFolder(path.parent, (path,), ())]
    if not path.is_dir():
        raise InputError(f"{path} does not exist" if not path.exists() else f"{path} is neither a file nor a folder")
    if not os.access(path, os.R_OK | os.X_OK):
        raise InputError(f"{path} cannot be read", "Check the permissions of the folder.")
    own = {file.parent for file in path.rglob(RUN_FILE)}
    roots: dict[Path, list[Path]] = {root: [] for root in sorted(own)}
    for file in _files(path):
        roots.setdefault(_run_root(file, path, own), []).append(file)
    return [_run_folder(root, files) for root, files in sorted(roots.items())]


def read_nodes(path: Path) -> NodeList:
    """Read a node list. Raises InputError."""
    try:
        return from_plain(NodeList, msgspec.json.decode(path.read_bytes()))
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def files_below(path: Path) -> Iterator[Path]:
    """All files of a folder in order of name, but for hidden ones and the cache."""
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != CACHE_FOLDER)
        for name in sorted(names):
            if not name.startswith(".") and (file := Path(folder, name)).is_file():
                yield file


def _files(path: Path) -> Iterator[Path]:
    return (file for file in files_below(path) if not _BESIDE.fullmatch(file.name))


def _run_root(file: Path, top: Path, own: set[Path]) -> Path:
    """The folder with the nearest `run.json` above, else the folder without those of one kind or rank."""
    root = file.parent
    for folder in (root, *root.parents):
        if folder in own:
            return folder
        if folder == top:
            break
    while root != top and _KIND_FOLDER.fullmatch(root.name):
        root = root.parent
    return root


def _run_folder(root: Path, files: list[Path]) -> RunFolder:
    nodes = tuple(file for file in files if file.name.endswith(NODES_SUFFIX))
    traces = tuple(file for file in files if file not in set(nodes))
    errors = []
    try:
        manifest = read_run(root)
    except InputError as error:
        manifest = None
        errors.append(error)
    rows = [row for _, row in read_manifests(root)]
    errors += [row for row in rows if isinstance(row, InputError)]
    return RunFolder(
        root, traces, nodes, manifest, tuple(row for row in rows if isinstance(row, ManifestRow)), tuple(errors)
    )
