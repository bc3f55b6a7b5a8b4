"""Formats for people, reviews and other tools: the same figures, and hostile names as text in each."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import polars as pl
import pytest
import synthetic
from rich.console import Console

from shapescope.show import console, export
from shapescope.show.result import Result
from shapescope.show.review import LONGEST, review
from shapescope.show.values import readable

HOSTILE = tuple(synthetic.HOSTILE)


def one(name: str) -> Result:
    return Result(
        "kernels",
        name,
        ("kernel", "op", "time_ns", "files"),
        [{"kernel": name, "op": name, "time_ns": 1, "files": [name]}],
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_no_formula_reaches_a_spreadsheet(name: str) -> None:
    cell = list(csv.reader(io.StringIO(export.to_csv(one(name)))))[1][0]
    assert cell.lstrip("'") == name.lstrip("'")
    assert cell[:1] not in ("=", "+", "-", "@", "\t", "\r")
    with zipfile.ZipFile(io.BytesIO(export.to_xlsx(one(name)))) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "<hyperlink" not in sheet


@pytest.mark.parametrize("name", HOSTILE)
def test_parquet_keeps_names_and_numbers_as_they_are(name: str) -> None:
    frame = pl.read_parquet(io.BytesIO(export.to_parquet(one(name))))
    assert frame["kernel"].to_list() == [name]
    assert frame["time_ns"].to_list() == [1]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_terminal_gets_no_escapes_and_no_markup(name: str) -> None:
    for width in (80, 400):
        screen = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
        console.show(screen, one(name), every_column=True)
        text = screen.file.getvalue()  # type: ignore[attr-defined]
        assert not {"\x1b", "\x07", "\u202e"} & set(text.replace("\x1b[1m", "").replace("\x1b[0m", ""))
        assert readable("kernel", name)[:12] in text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_review_shows_names_as_text(name: str) -> None:
    text = review(synthetic.hostile(name))
    assert "<img" not in text
    assert "@everyone" not in text
    allowed = (
        "<code>",
        "</code>",
        "<details>",
        "<details open>",
        "</details>",
        "<summary>",
        "</summary>",
        "<sub>",
        "</sub>",
        "<span title=",
        "</span>",
    )
    rest = text
    for tag in allowed:
        rest = rest.replace(tag, "")
    assert "<" not in rest
    cells = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.endswith(" |") for line in cells)


def test_a_review_fits_a_comment_however_large_the_run() -> None:
    page = synthetic.page(sizes=range(1, 51), ranks=8, families=60, base=True)
    text = review(page)
    assert 10_000 < len(text) <= LONGEST
    assert text.count("<details") == text.count("</details>")
    assert "more rows" in text


def test_a_review_says_what_changed() -> None:
    text = review(synthetic.page(base=True))
    assert "6 of 46 rows changed" in text
    assert "<code>slower</code>" in text


def test_nested_values_are_json_text_for_other_tools(tmp_path: Path) -> None:
    result = Result(
        "kernels", "run", ("dims", "time_ns"), [{"dims": [[1, 2], []], "time_ns": None}, {"dims": None, "time_ns": 5}]
    )
    frame = pl.read_parquet(io.BytesIO(export.to_parquet(result)))
    assert frame.rows() == [("[[1,2],[]]", None), (None, 5)]


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("time_ns", 2125, "2.12 us"),
        ("time_ns", 999, "999 ns"),
        ("time_ns", None, "–"),
        ("memory_bytes", 1536, "1.50 KiB"),
        ("share", 0.12345, "12.3%"),
        ("time_ratio", 1.9, "1.9"),
        ("tflops", 1307.4, "1307"),
        ("launches", 12584, "12584"),
        ("disturbed", True, "yes"),
        ("families", {"0": "a", "1": "b\x1b"}, "0 a, 1 b\\x1b"),
        ("dims", [[32, 4096], []], "32 4096 "),
        ("files", [], "–"),
    ],
)
def test_values_read_the_same_everywhere(column: str, value: object, text: str) -> None:
    assert readable(column, value) == text
