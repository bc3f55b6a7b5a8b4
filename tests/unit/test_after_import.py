"""An action waits for a module's import, whoever imports it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shapescope.engines.after_import import after_import


@pytest.fixture(autouse=True)
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with a package `awaited`; imports and finders are as before afterwards."""
    finders = list(sys.meta_path)
    (tmp_path / "awaited").mkdir()
    (tmp_path / "awaited" / "__init__.py").touch()
    (tmp_path / "awaited" / "inner.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "awaited"]:
        del sys.modules[name]


def test_acts_after_the_body_has_run_and_once() -> None:
    seen: list[int] = []
    after_import("awaited.inner", lambda module: seen.append(module.value))
    after_import("awaited.inner", lambda module: seen.append(-module.value))
    assert seen == []
    importlib.import_module("awaited.inner")
    importlib.import_module("awaited.inner")
    assert seen == [1, -1]


def test_acts_at_once_where_the_import_is_past() -> None:
    importlib.import_module("awaited.inner")
    seen: list[int] = []
    after_import("awaited.inner", lambda module: seen.append(module.value))
    assert seen == [1]


def test_the_module_keeps_its_own_loader() -> None:
    after_import("awaited.inner", lambda module: None)
    module = importlib.import_module("awaited.inner")
    assert type(module.__loader__).__module__ == "_frozen_importlib_external"
    assert module.__spec__ is not None and module.__spec__.loader is module.__loader__


def test_a_module_that_does_not_exist_stays_an_import_error() -> None:
    after_import("awaited.absent", lambda module: pytest.fail("there is nothing to act on"))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("awaited.absent")


def test_a_failed_import_may_be_tried_again(module_folder: Path) -> None:
    source = module_folder / "awaited" / "inner.py"
    source.write_text("raise OSError('not yet')\n")
    seen: list[int] = []
    after_import("awaited.inner", lambda module: seen.append(module.value))
    with pytest.raises(OSError, match="not yet"):
        importlib.import_module("awaited.inner")
    source.write_text("value = 22222222222222222\n")
    importlib.invalidate_caches()
    importlib.import_module("awaited.inner")
    assert seen == [22222222222222222]
