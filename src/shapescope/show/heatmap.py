"""Families by batch size on a terminal: shades and marks that say the same without colour, at 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from shapescope.show.result import Result
from shapescope.show.values import printable

_SHADES = " ░▒▓█"
_BARS = "▁▂▃▄▅▆▇█"
# Strongest first, as the page marks them.
_MARKS = {"cliff": "▲", "fallback": "▽", "step": "▸", "island": "◇", "absent": "×", "tile": "·"}
_SOURCES = ("replay", "warmup", "eager", "nodes", "capture")
_NAME_WIDTH = 24
_NARROWEST, _WIDEST = 2, 6
_MOST_FAMILIES = 20

Graphs = tuple[Any, ...]
_GRAPHS = ("runner", "variant", "rank")


def heat_map(kernels: Result, switches: Result, width: int = 80) -> list[Text]:
    """One block of lines for the first rank of each graphs: a row a family, a column a size, a mark where the kernel changes.

    `kernels` is grouped by family. A shade is the share of the replay's time, or of its calls where nothing was timed.
    Empty where fewer than two sizes can be compared.
    """
    lines: list[Text] = []
    for graphs, rows in _first_ranks(kernels.rows).items():
        cells, timed = _cells(rows)
        sizes = sorted({size for _, size in cells})[-((width - _NAME_WIDTH - 1) // _NARROWEST) :]
        if len(sizes) > 1:
            lines += _block(graphs, cells, sizes, marks=_marks(switches.rows, graphs), timed=timed, width=width)
    return lines


def _block(
    graphs: Graphs,
    cells: Mapping[tuple[str, int], float],
    sizes: Sequence[int],
    *,
    marks: Mapping[tuple[str, int], str],
    timed: bool,
    width: int,
) -> list[Text]:
    column = max(_NARROWEST, min(_WIDEST, (width - _NAME_WIDTH - 1) // len(sizes)))
    most: dict[str, float] = {}
    for (family, _), share in cells.items():
        most[family] = max(most.get(family, 0), share)
    families = sorted(most, key=lambda family: -most[family])[:_MOST_FAMILIES]
    what = "time" if timed else "launches"
    title = " · ".join(
        str(word) for word in (printable(graphs[0] or ""), printable(graphs[1] or ""), f"rank {graphs[2]}") if word
    )
    lines = [Text(f"{title}: share of {what} by family and size", style="bold"), _axis(sizes, column)]
    for family in families:
        line = Text(_name(family).ljust(_NAME_WIDTH + 1))
        for size in sizes:
            mark = marks.get((family, size), "")
            line.append(_shaded(cells.get((family, size)), mark, column), style="bold" if mark else "")
        lines.append(line)
    if len(most) > len(families):
        lines.append(Text(f"{len(most) - len(families)} smaller families", style="dim"))
    seen = [f"{mark} {kind}" for kind, mark in _MARKS.items() if mark in marks.values()]
    lines.append(Text("  ".join(["░ <25%", "▒ <50%", "▓ <75%", "█ more", *seen]), style="dim"))
    return lines


def _axis(sizes: Sequence[int], column: int) -> Text:
    """Sizes over their columns, as many as have room."""
    line = ""
    for at, size in enumerate(sizes):
        start = _NAME_WIDTH + 1 + at * column
        if start >= len(line) + bool(line):
            line = line.ljust(start) + str(size)
    return Text(line, style="dim")


def _shaded(share: float | None, mark: str, column: int) -> str:
    """A cell: its mark, then its shade. A family that ran has a shade, however little it took."""
    shade = _SHADES[0] if share is None else _SHADES[min(4, 1 + int(share * 4))]
    return (mark or shade) + shade * (column - 1)


def _name(family: str) -> str:
    name = printable(family)
    if len(name) <= _NAME_WIDTH:
        return name
    half = (_NAME_WIDTH - 1) // 2
    return f"{name[: _NAME_WIDTH - 1 - half]}…{name[-half:]}"


def _first_ranks(rows: Sequence[Mapping[str, Any]]) -> dict[Graphs, list[Mapping[str, Any]]]:
    """The rows with a size of each runner and variant, of the first rank that has any."""
    found: dict[Graphs, list[Mapping[str, Any]]] = {}
    ranks: dict[Graphs, Any] = {}
    for row in rows:
        key = tuple(row.get(name) for name in _GRAPHS)
        if row.get("size") is not None and ranks.setdefault(key[:2], key[2]) == key[2]:
            found.setdefault(key, []).append(row)
    return found


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[tuple[str, int], float], bool]:
    """Shares by family and size, each size by its best source; and whether they are of time."""
    best: dict[int, str] = {}
    for row in rows:
        size, source = row["size"], row["source"]
        if size not in best or _preference(source) < _preference(best[size]):
            best[size] = source
    chosen = [row for row in rows if row["source"] == best[row["size"]] and row["family"] is not None]
    timed = any(row["share"] is not None for row in chosen)
    calls: dict[int, int] = {}
    for row in chosen:
        calls[row["size"]] = calls.get(row["size"], 0) + (row["calls"] or 0)
    cells: dict[tuple[str, int], float] = {}
    for row in chosen:
        share = row["share"] if timed else (row["calls"] or 0) / max(1, calls[row["size"]])
        if share is not None:
            cells[row["family"], row["size"]] = share
    return cells, timed


def _preference(source: str) -> int:
    return _SOURCES.index(source) if source in _SOURCES else len(_SOURCES)


def _marks(rows: Sequence[Mapping[str, Any]], graphs: Graphs) -> dict[tuple[str, int], str]:
    """The strongest change into each family and size."""
    found: dict[tuple[str, int], str] = {}
    order = list(_MARKS)
    for row in sorted((row for row in rows if row["kind"] in _MARKS), key=lambda row: -order.index(row["kind"])):
        if (row.get("runner"), row.get("variant")) == graphs[:2] and row["family_to"] is not None:
            found[row["family_to"], row["size_to"]] = _MARKS[row["kind"]]
    return found


def sparklines(shapes: Result) -> list[Text]:
    """Time per replay over the sizes, a line for each graphs and rank that has at least three; a missing time is a dash."""
    groups: dict[Graphs, list[Mapping[str, Any]]] = {}
    for row in shapes.rows:
        if row.get("size") is not None:
            groups.setdefault(tuple(row.get(name) for name in _GRAPHS), []).append(row)
    lines = []
    for graphs, rows in groups.items():
        times = [row["time_ns"] for row in sorted(rows, key=lambda row: row["size"])]
        known = [time for time in times if time is not None]
        if len(known) >= 3:
            sizes = sorted(row["size"] for row in rows)
            bars = "".join("–" if time is None else _BARS[round(7 * time / max(known))] for time in times)
            name = " ".join(printable(str(word)) for word in (graphs[0], graphs[1]) if word)
            lines.append(
                Text(f"{name} rank {graphs[2]}, time per replay at {sizes[0]} to {sizes[-1]}: {bars}", style="dim")
            )
    return lines
