"""The page as one HTML file: everything inlined, no request anywhere, and a policy inside that forbids any."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

import msgspec

from shapescope.show.values import printable

# What would end or open an element inside a script element, and the two line ends that JavaScript once refused.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LONGEST_TITLE = 120
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 14V9h3V6h4V3h5v11z'"
    " fill='%23c2410c'/%3E%3C/svg%3E"
)


def report(payload: Mapping[str, Any]) -> str:
    """One HTML document that shows the payload; from `file://` as well as from a server."""
    script, style = _static("page.js"), _static("page.css")
    live = bool(payload.get("live"))
    title = printable(str(payload["title"]))[:_LONGEST_TITLE]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script, live=live)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<link rel="icon" href="{_ICON}">\n<title>{escape(title)} · shapescope</title>\n<style>{style}</style>\n</head>\n'
        '<body>\n<div id="page"></div>\n<noscript>This report needs JavaScript; nothing in it leaves this file.</noscript>\n'
        f'<script type="application/json" id="payload">{embedded(payload)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def embedded(payload: Mapping[str, Any]) -> str:
    """JSON that no name inside can break out of, whatever it holds."""
    text = msgspec.json.encode(payload).decode()
    for character, spelled in _UNSAFE.items():
        text = text.replace(character, spelled)
    return text


def policy(script: str, *, live: bool) -> str:
    """Only our own script runs, and only a live page may ask its own server for anything."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest}'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if live else rules)


def _static(name: str) -> str:
    return resources.files("shapescope.show").joinpath("static", name).read_text(encoding="utf-8")
