"""The documents are held to the code: what one has, the other names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from shapescope import settings
from shapescope.cli.app import COMMANDS
from shapescope.model import ManifestRow, RunManifest, TraceIdentity
from shapescope.read.problem import Code

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])


def test_every_warning_code_is_listed() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "codes.md").read_text(), re.M)
    assert sorted(listed) == sorted(Code)


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `shapescope (\w+)", (DOCS / "commands.md").read_text(), re.M)
    assert sorted(listed) == sorted(COMMANDS)


def test_every_switch_is_listed() -> None:
    names = {value for value in vars(settings).values() if isinstance(value, str) and value.startswith("SHAPESCOPE_")}
    listed = set(re.findall(r"^\| `(SHAPESCOPE_\w+)` \|", (DOCS / "recording.md").read_text(), re.M))
    assert listed == names | {"SHAPESCOPE_RUN_ID"}


@pytest.mark.parametrize(("name", "kind"), [("trace", TraceIdentity), ("run", RunManifest), ("manifest", ManifestRow)])
def test_schemas_are_those_of_the_model(name: str, kind: type) -> None:
    """To write one anew: `json.dumps(msgspec.json.schema(KIND), indent=2)`."""
    committed = json.loads((DOCS / "schemas" / f"{name}.json").read_text())
    assert committed == json.loads(msgspec.json.encode(msgspec.json.schema(kind)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_shows_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text and "make test" in text
