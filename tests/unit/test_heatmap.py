"""The terminal's heat map and spark lines: 80 columns, no colour needed, nothing invented; and results in a notebook."""

from __future__ import annotations

import io

import pytest
import synthetic
from rich.console import Console

from shapescope.show.heatmap import heat_map, sparklines
from shapescope.show.notebook import Report, table
from shapescope.show.result import Result

COLUMNS = ("runner", "variant", "rank", "size", "family", "source", "calls", "share")
SWITCH = ("runner", "variant", "kind", "family_from", "family_to", "size_from", "size_to")


def kernels(*rows: tuple[int | None, str | None, str, int | None, float | None], rank: int = 0) -> Result:
    return Result(
        "kernels", "run", COLUMNS, [dict(zip(COLUMNS, ("decode", "", rank, *row), strict=True)) for row in rows]
    )


def switches(*rows: tuple[str, str | None, str | None, int, int]) -> Result:
    return Result("switches", "run", SWITCH, [dict(zip(SWITCH, ("decode", "", *row), strict=True)) for row in rows])


def drawn(kernel_rows: Result, switch_rows: Result | None = None, width: int = 80) -> list[str]:
    return [line.plain for line in heat_map(kernel_rows, switch_rows or switches(), width)]


TWO_SIZES = kernels(
    (1, "gemv", "replay", 4, 0.8),
    (1, "norm", "replay", 2, 0.2),
    (2, "gemm", "replay", 4, 0.9),
    (2, "norm", "replay", 2, 0.1),
)


def test_shades_say_the_share_and_marks_the_change() -> None:
    lines = drawn(TWO_SIZES, switches(("fallback", "gemv", "gemm", 1, 2)))
    assert lines[0] == "decode · rank 0: share of time by family and size"
    assert lines[2] == f"{'gemm':25}      ▽█████"
    assert lines[3] == f"{'gemv':25}██████      "
    assert lines[4] == f"{'norm':25}░░░░░░░░░░░░"
    assert lines[5].endswith("▽ fallback")


def test_the_strongest_mark_of_a_cell_stands() -> None:
    lines = drawn(TWO_SIZES, switches(("step", "gemv", "gemm", 1, 2), ("cliff", "gemm", "gemm", 1, 2)))
    assert "▲" in lines[2]
    assert "▸" not in lines[2]


def test_launches_stand_in_where_nothing_was_timed() -> None:
    lines = drawn(kernels((1, "a", "capture", 3, None), (1, "b", "capture", 1, None), (2, "a", "capture", 4, None)))
    assert "share of launches" in lines[0]
    assert lines[2] == f"{'a':25}████████████"
    assert lines[3] == f"{'b':25}▒▒▒▒▒▒      "


def test_replays_are_preferred_to_captures() -> None:
    rows = kernels((1, "a", "capture", 9, None), (1, "b", "replay", 1, 1.0), (2, "b", "replay", 1, 1.0))
    assert [line.split()[0] for line in drawn(rows)[2:-1]] == ["b"]


@pytest.mark.parametrize(
    "rows", [kernels(), kernels((1, "a", "replay", 1, 1.0)), kernels((None, "a", "eager", 1, 1.0))]
)
def test_nothing_is_drawn_where_nothing_compares(rows: Result) -> None:
    assert drawn(rows) == []


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_the_terminal(width: int) -> None:
    made = synthetic.page(sizes=range(1, 51), ranks=1).tables
    for line in heat_map(made["kernels"], made["switches"], width):
        assert line.cell_len <= width


@pytest.mark.parametrize("name", synthetic.HOSTILE)
def test_a_hostile_family_is_text(name: str) -> None:
    screen = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    for line in heat_map(kernels((1, name, "replay", 1, 1.0), (2, name, "replay", 1, 1.0)), switches()):
        screen.print(line, soft_wrap=True)
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert not {"\x07", "\u202e", "\x1b"} & set(
        text.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
    )


def test_spark_lines_keep_a_missing_time_missing() -> None:
    columns = ("runner", "variant", "rank", "size", "time_ns")
    rows = [
        dict(zip(columns, ("decode", "", 0, size, time), strict=True))
        for size, time in ((1, 10), (2, None), (4, 20), (8, 80))
    ]
    assert [line.plain for line in sparklines(Result("shapes", "run", columns, rows))] == [
        "decode rank 0, time per replay at 1 to 8: ▂–▃█"
    ]


@pytest.mark.parametrize("name", synthetic.HOSTILE)
def test_a_notebook_shows_names_as_text(name: str) -> None:
    result = Result("kernels", name, ("kernel", "time_ns"), [{"kernel": name, "time_ns": None}])
    assert result._repr_html_() == table(result)
    for markup in ("<script", "<img", "<svg"):
        assert markup not in result._repr_html_()
    frame = Report(synthetic.hostile(name))._repr_html_()
    assert frame.count("<") == 2
    assert 'sandbox="allow-scripts"' in frame


def test_a_notebook_counts_what_it_leaves_out() -> None:
    rows = [{"kernel": "k"}] * 130
    assert "30 more rows" in table(Result("kernels", "run", ("kernel",), rows))
