"""Chromium for the page's tests: Debian's, headless, with the network off."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from shapescope.show import page as pages
from shapescope.show.html import report

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page as a reader has it open, and everything that went wrong or out."""

    page: Page
    file: Path
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture
def open_page(chromium: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from `file://` with the network off; at the end nothing may have gone wrong, or out."""
    opened: list[Opened] = []

    def open_one(
        made: pages.Page, *, width: int = 1280, theme: str = "light", state: str = "", bypass_csp: bool = False
    ) -> Opened:
        file = tmp_path / f"report-{len(opened)}.html"
        file.write_text(report(pages.payload(made)), encoding="utf-8")
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, offline=True, bypass_csp=bypass_csp  # type: ignore[arg-type]
        )  # fmt: skip
        one = Opened(context.new_page(), file)
        opened.append(one)
        one.page.on(
            "console", lambda message: one.faults.append(message.text) if message.type in ("error", "warning") else None
        )
        one.page.on("pageerror", lambda error: one.faults.append(str(error)))
        one.page.on("dialog", lambda dialog: (one.faults.append(dialog.message), dialog.dismiss()))
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.goto(f"{file.as_uri()}{state}")
        one.page.wait_for_selector("#warnings", state="attached")
        return one

    yield open_one
    for one in opened:
        allowed = (one.file.as_uri(), "data:")
        asked = [url for url in one.requests if not url.startswith(allowed)]
        one.page.context.close()
        assert one.faults == []
        assert asked == []
