"""A guard over the sources of the next vLLM: the seams that the adapter wraps are there, with the parameters it reads.

The sources have no compiled part, so they are imported in a process of their own, and nothing of them runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shapescope.engines.vllm import SEAMS

NEXT = Path(sys.prefix) / "vllm-0.33.0"

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not NEXT.is_dir(), reason="the sources of vLLM 0.33 are not here: `make test-vllm` fetches them"
    ),
]

LOOK = """
import ast, dataclasses, importlib, inspect, json, sys, textwrap
seams = json.loads(sys.argv[1])
import vllm
found = {"version": vllm.__version__, "seams": []}
for module, owner, method in seams:
    function = getattr(getattr(importlib.import_module(module), owner), method)
    found["seams"].append(list(inspect.signature(function).parameters))
from vllm.v1.worker.gpu_model_runner import GPUModelRunner as V1
from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor, CudaGraphManager
from vllm.forward_context import BatchDescriptor
found["v1_fields"] = [field.name for field in dataclasses.fields(BatchDescriptor)]
found["v2_fields"] = [field.name for field in dataclasses.fields(BatchExecutionDescriptor)]
found["capture"] = textwrap.dedent(inspect.getsource(CudaGraphManager.capture))
calls = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(V1._warmup_and_capture))))
found["dummy_runs"] = [
    [keyword.arg for keyword in call.keywords]
    for call in calls if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "_dummy_run"
]
from vllm.distributed import parallel_state
found["groups"] = [name for name in dir(parallel_state) if name.startswith("get_")]
from vllm.config.profiler import ProfilerConfig
found["own_switch"] = "capture_torch_profiler" in {field.name for field in dataclasses.fields(ProfilerConfig)}
from vllm.plugins import DEFAULT_PLUGINS_GROUP
found["plugins"] = DEFAULT_PLUGINS_GROUP
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("next")
    wanted = json.dumps([(seam.module, seam.owner, seam.method) for seam in SEAMS])
    environment = {**os.environ, "PYTHONPATH": str(NEXT), "VLLM_CACHE_ROOT": str(folder), "TMPDIR": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", LOOK, wanted], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    loaded: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return loaded


def test_it_is_the_next_version(found: dict[str, object]) -> None:
    assert found["version"] == "0.33.0"


def test_every_seam_has_the_parameters_we_read(found: dict[str, list[list[str]]]) -> None:
    for seam, parameters in zip(SEAMS, found["seams"], strict=True):
        assert set(seam.parameters) <= set(parameters), seam


def test_v1_says_by_keyword_that_it_captures(found: dict[str, list[list[str]]]) -> None:
    warmup, capture = found["dummy_runs"]
    assert "is_graph_capturing" in capture and "is_graph_capturing" not in warmup


def test_v2_makes_its_forwards_by_the_factory_and_captures_in_torchs_graph(found: dict[str, str]) -> None:
    assert "create_forward_fn(desc" in found["capture"]
    assert "forward_fn(CUDAGraphMode.PIECEWISE)" in found["capture"]
    assert "torch.cuda.graph(" in found["capture"]
    assert "self._capture_descs[mode]" in found["capture"]


def test_the_descriptors_have_the_fields_that_keys_are_made_of(found: dict[str, list[str]]) -> None:
    assert {"num_tokens", "num_reqs", "uniform", "has_lora", "num_active_loras"} == set(found["v1_fields"])
    assert {
        "cg_mode", "num_tokens", "num_reqs", "uniform_token_count", "max_query_len", "num_active_loras", "num_ubatches",
    } == set(found["v2_fields"])  # fmt: skip


def test_ranks_switch_and_plugin_group_are_where_we_look(found: dict[str, list[str]]) -> None:
    assert {f"get_{name}_group" for name in ("tp", "pp", "dp", "ep", "world")} <= set(found["groups"])
    assert found["own_switch"] is True
    assert found["plugins"] == "vllm.general_plugins"
