"""The page's payload and its file: nothing is lost in packing, and no name breaks out."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st

from shapescope.read.run import open_run
from shapescope.show.gather import gather
from shapescope.show.html import report
from shapescope.show.page import Fact, Page, bound, flat, pack, payload, unpack
from shapescope.show.result import Result

SIZE_LIMIT = 5_000_000
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.text(),
    st.lists(st.lists(st.integers(0, 5), max_size=2), max_size=2), st.sampled_from(["a", "b", 1, 1.0, True, 0, False, ""]),
)  # fmt: skip


def same(left: Any, right: Any) -> bool:
    """Equal in type too: 1, 1.0 and True are three values."""
    return msgspec.json.encode(left) == msgspec.json.encode(right)


@given(st.lists(VALUES, max_size=12))
def test_pack_is_undone_by_unpack(values: list[Any]) -> None:
    assert same(unpack(json.loads(json.dumps(pack(values))), len(values)), values)


def test_repeated_words_are_spelled_once() -> None:
    packed = pack(["gemm", None, "gemm", "attention", "gemm", None])
    assert packed == {"words": ["gemm", None, "attention"], "at": [0, 1, 0, 2, 0, 1]}


class Scripts(HTMLParser):
    """What a browser makes of a document: its elements, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.scripts and self.cdata_elem == "script":
            self.scripts[-1] += data


def parsed(text: str) -> Scripts:
    scripts = Scripts()
    scripts.feed(text)
    return scripts


def test_hostile_names_stay_inside_their_script() -> None:
    plain = payload(synthetic.hostile())
    document = parsed(report(plain))
    assert document.elements == parsed(report(payload(synthetic.page(sizes=[1], ranks=1)))).elements
    assert json.loads(document.scripts[0]) == json.loads(msgspec.json.encode(plain))


def test_a_report_asks_nobody_for_anything() -> None:
    text = report(payload(synthetic.page(sizes=[1, 2], ranks=1)))
    addresses = set(re.findall(r"https?://[\w./-]+", text))
    # Names of XML namespaces, which nobody fetches.
    assert {address for address in addresses if not address.startswith("http://www.w3.org/")} == set()
    assert "default-src 'none'" in text
    assert "connect-src" not in text


def test_the_policy_names_the_script_that_is_there() -> None:
    text = report(payload(synthetic.page(sizes=[1], ranks=1)))
    digest = base64.b64encode(hashlib.sha256(parsed(text).scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text


def test_a_large_run_fits_in_a_mail() -> None:
    page = synthetic.page(sizes=range(1, 51), ranks=8, families=60)
    plain = payload(page)
    assert plain["tables"]["kernels"]["left_out"] is None
    assert plain["tables"]["kernels"]["count"] == 50 * 8 * 60
    assert "126,072 of 145,728 rows" in plain["tables"]["launches"]["left_out"]
    assert len(report(plain).encode()) <= SIZE_LIMIT


def test_bounding_keeps_whole_shapes_and_first_ranks() -> None:
    rows = [{"rank": rank, "size": size, "seq": seq} for rank in (0, 1) for size in (1, 2) for seq in range(10)]
    kept, words = bound(Result("kernels", "run", ("rank", "size", "seq"), rows), 25)
    assert [(row["rank"], row["size"]) for row in kept.rows] == [(0, 1)] * 10 + [(0, 2)] * 10
    assert words is not None
    assert "20 of 40 rows (2 of 4 shapes and ranks)" in words


def test_hide_paths_keeps_names_only() -> None:
    page = replace(
        synthetic.page(sizes=[1], ranks=1),
        environment={"command": "/home/someone/venv/bin/serve --model /data/m.gguf a/b"},
    )
    plain = payload(page, hide_paths=True)
    assert plain["environment"] == {"command": "…/serve --model …/m.gguf a/b"}
    assert "someone" not in report(plain)


def test_an_environment_is_flattened_in_order() -> None:
    nested = {"device": "cpu", "packages": {"torch": "2.13", "none": None}, "flags": ["a", "b"]}
    assert dict(flat(nested)) == {"device": "cpu", "packages.torch": "2.13", "flags": "a b"}


@pytest.mark.parametrize("name", ["sglang_qwen3_8b_mi300x_bs32", "vllm_gptoss_mi300x_piecewise", "eager"])
def test_real_traces_make_a_page(traces: Path, name: str) -> None:
    run = open_run(traces / name)
    page = gather(run)
    assert page.tables["shapes"].rows or page.tables["launches"].rows
    assert Fact("model", None, "these traces come without a run.json") in page.facts
    assert len(report(payload(page))) < SIZE_LIMIT


def test_an_empty_page_is_a_page() -> None:
    assert parsed(report(payload(Page("nothing", (), {})))).elements.count("script") == 2
