"""axe-core finds no serious fault in either theme."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_serious_fault(open_page, theme: str, width: int) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make page`")
    page = open_page(synthetic.page(base=True), theme=theme, width=width, state="#table=shapes", bypass_csp=True).page
    page.locator(".tree-row").first.click()
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        (fault["id"], fault["impact"], node["target"], node["failureSummary"])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"][:3]
    ]
    assert serious == []
    assert len(found["passes"]) > 15
