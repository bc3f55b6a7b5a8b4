"""The only authority on folders and file names, and on how a file appears: whole or not at all.

The simple case is the name that the ecosystem already writes: `<runner>_bs_<size>_rank<r>.json.gz`.

Invariant: within one run (one world of ranks) a name determines its key, rank and evidence: no two collide.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from shapescope.errors import OutputError
from shapescope.model import Evidence, GraphKey, Phase, Rank, Unit

TRACE_FOLDER = "graph_capture_profile"
CACHE_FOLDER = "cache"
RUN_FILE = "run.json"
REPORT_FILE = "report.html"
DEFAULT_ROOT = "shapescope-runs"
RUN_ID_VARIABLE = "SHAPESCOPE_RUN_ID"

_SUFFIX = {
    Evidence.CAPTURE: ".json.gz",
    Evidence.WARMUP: ".warmup.json.gz",
    Evidence.REPLAY: ".replay.json.gz",
    Evidence.NODES: ".nodes.json",
}
_SIZE_WORD = {Unit.REQUESTS: "bs", Unit.TOKENS: "tokens"}
# A stem longer than this is cut and ends in a digest: file systems stop at 255 bytes, suffixes and temporary names included.
_LONGEST_STEM = 200
_LOOKS_LIKE_SIZE = re.compile(r"_(?:bs|tokens)_\d+(?=_|$)")
_MANIFEST = re.compile(r"manifest\.\d+-(?P<host>.*)-(?P<pid>\d+)\.jsonl")
_WRITING = ".writing-"
_RESERVED_VARIANT = re.compile(r"rank\d+|(?:tp|pp|dp|ep)\d+|phase=.*")


def root_folder(environment: Mapping[str, str], asked: str | os.PathLike[str] | None = None) -> Path:
    """Where runs go: what was asked for, else SHAPESCOPE_PROFILER_DIR, else `./shapescope-runs`."""
    return Path(asked or environment.get("SHAPESCOPE_PROFILER_DIR") or DEFAULT_ROOT).expanduser().absolute()


def run_folder(root: Path, run_id: str) -> Path:
    return root / run_id


def new_run_id() -> str:
    """A name that sorts by start time and that two starts in one second do not share."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"


def default_phase(runner: str, unit: Unit) -> Phase:
    """The phase that a runner's name implies, so that file names need to state it only when it is another."""
    name = runner.lower().replace("_", "").replace("-", "")
    if "draftextend" in name:
        return Phase.DRAFT_EXTEND
    for word, phase in (
        ("draft", Phase.DRAFT),
        ("verify", Phase.VERIFY),
        ("prefill", Phase.PREFILL),
        ("encoder", Phase.ENCODER),
        ("decode", Phase.DECODE),
    ):
        if word in name:
            return phase
    return Phase.DECODE if unit is Unit.REQUESTS else Phase.MIXED


def trace_name(
    key: GraphKey | None,
    rank: Rank,
    evidence: Evidence,
    *,
    sequence: int = 0,
    context_len: int | None = None,
    duplicate: int = 0,
) -> str:
    """The file name of one window. A window without a key is `unlabelled-<sequence>`, never a guessed size.

    A replay at a real context length says so: `.replay-1024.json.gz`.
    """
    stem = f"unlabelled-{sequence}" if key is None else _key_words(key)
    suffix = _SUFFIX[evidence] if context_len is None else f".{evidence}-{context_len}.json.gz"
    return f"{_bounded(stem)}_{rank_words(rank)}{_duplicate(duplicate)}{suffix}"


def combined_name(runner: str, rank: Rank, *, duplicate: int = 0) -> str:
    """The combined trace of one runner: the ecosystem's name while the world is only tensor parallel."""
    where = f"TP-{rank.tp}" if _only_tensor_parallel(rank) else rank_words(rank)
    return f"cuda_graph_capture-{_bounded(_quoted(runner, keep='_'))}-{where}{_duplicate(duplicate)}.json.gz"


def memory_snapshot_name(runner: str, rank: Rank, *, duplicate: int = 0) -> str:
    """torch's allocator snapshot of one runner and rank, for torch's own viewer."""
    return f"memory_snapshot-{_bounded(_quoted(runner, keep='_'))}-{rank_words(rank)}{_duplicate(duplicate)}.pickle"


def summary_name(runner: str, rank: Rank, *, duplicate: int = 0) -> str:
    """The plain-text tables of the heaviest operations of one runner."""
    return f"summary-{_bounded(_quoted(runner, keep='_'))}-{rank_words(rank)}{_duplicate(duplicate)}.txt"


def _duplicate(number: int) -> str:
    return f"_dup{number}" if number else ""


def manifest_name(rank: Rank, host: str, pid: int) -> str:
    return f"manifest.{rank.rank}-{_quoted(host, keep='_')}-{pid}.jsonl"


def manifests_here(folder: Path) -> Iterator[tuple[Path, int]]:
    """The manifests that processes of this host have written, each with its process."""
    for path in sorted(folder.glob("manifest.*.jsonl")):
        match = _MANIFEST.fullmatch(path.name)
        if match and match["host"] == _here():
            yield path, int(match["pid"])


def rank_words(rank: Rank) -> str:
    """`rank<tp>` while the world is only tensor parallel; else every parallel dimension above 1, and the global rank."""
    if _only_tensor_parallel(rank):
        return f"rank{rank.tp if rank.tp_size > 1 else rank.rank}"
    sizes = {"tp": rank.tp_size, "pp": rank.pp_size, "dp": rank.dp_size, "ep": rank.ep_size}
    words = [f"{name}{getattr(rank, name)}" for name, size in sizes.items() if size > 1]
    return "_".join([*words, f"rank{rank.rank}"])


def _only_tensor_parallel(rank: Rank) -> bool:
    """Ranks of a dimension that we do not know share a tp rank: then the global rank must be in the name."""
    alone = rank.pp_size <= 1 and rank.dp_size <= 1 and rank.ep_size <= 1
    return alone and (rank.tp_size <= 1 or rank.world_size <= rank.tp_size)


def _key_words(key: GraphKey) -> str:
    shape = key.shape
    runner = _quoted(key.runner, keep="_")
    if not runner or _LOOKS_LIKE_SIZE.search(f"{runner}_"):
        runner = _quoted(key.runner) or "%"
    # A leading dot would hide the file.
    runner = _escape_first(runner) if runner[0] == "." else runner
    words = [runner, _SIZE_WORD[shape.unit], str(shape.size), *map(_variant_words, shape.variants)]
    if key.phase is not default_phase(key.runner, shape.unit):
        words.append(f"phase={key.phase}")
    return "_".join(words)


def _variant_words(variant: str) -> str:
    """`lora` as it is, `stream=1` as `stream_1`: only a value begins with a digit, so that the two stay apart."""
    name, equals, value = variant.partition("=")
    if name and equals and value.isascii() and value.isdigit() and not _RESERVED_VARIANT.fullmatch(variant):
        return f"{_not_a_value(_quoted(name))}_{value}"
    text = _quoted(variant, keep="=") or "%"
    return _escape_first(text) if _RESERVED_VARIANT.fullmatch(variant) else _not_a_value(text)


def _not_a_value(text: str) -> str:
    return _escape_first(text) if text[0].isdigit() else text


def _escape_first(text: str) -> str:
    return f"%{ord(text[0]):02X}{text[1:]}"


def _quoted(text: str, *, keep: str = "") -> str:
    """Percent-quote all but letters, digits, `-`, `.` and what is kept; `~` marks a digest and `_` joins words."""
    quoted = quote(text, safe=keep, errors="surrogatepass").replace("~", "%7E")
    return quoted if "_" in keep else quoted.replace("_", "%5F")


def _bounded(stem: str) -> str:
    if len(stem) <= _LONGEST_STEM:
        return stem
    digest = hashlib.sha256(stem.encode()).hexdigest()[:16]
    return f"{stem[: _LONGEST_STEM - 17]}~{digest}"


def publish(folder: Path, name: Callable[[int], str], write: Callable[[Path], object]) -> tuple[Path, int]:
    """Write a file beside its place, then link it to its name: it appears whole or not at all.

    `name(n)` is the name of the n-th duplicate: `os.link` refuses a name that exists, so two writers never overwrite
    each other. Returns the path and n. Raises OutputError; nothing is left behind then.
    """
    temporary = temporary_file(folder)
    try:
        write(temporary)
        temporary.chmod(0o644)
        return _link_first_free(temporary, folder, name)
    except OSError as error:
        raise OutputError(f"cannot write {folder / name(0)}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _link_first_free(temporary: Path, folder: Path, name: Callable[[int], str]) -> tuple[Path, int]:
    duplicate = 0
    while True:
        target = folder / name(duplicate)
        try:
            os.link(temporary, target)
        except FileExistsError:
            duplicate += 1
        else:
            return target, duplicate


def temporary_file(folder: Path) -> Path:
    """A new empty file beside its later place, whose name says who is writing it. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=f"{_WRITING}{_here()}-{os.getpid()}-", dir=folder)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write in {folder}: {error.strerror or error}") from error
    return Path(path)


def temporary_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """What processes of this host are writing, or have left behind, anywhere below a folder: the file and the process."""
    for path in folder.rglob(f"{_WRITING}*"):
        host, _, rest = path.name.removeprefix(_WRITING).rpartition("-")[0].rpartition("-")
        if host == _here() and rest.isdigit():
            yield path, int(rest)


def _here() -> str:
    return _quoted(platform.node(), keep="_")
