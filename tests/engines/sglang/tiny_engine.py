"""The parts of SGLang that own graphs, alive on a CPU: the real runners and backends over a two-layer model.

Real are the published configuration, the process groups (gloo), every runner's constructor and capture loop, the
backends and `torch.cuda.graph`. Ours are the model, an attention backend without attention, and the pools' facade.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_on_cpu
import stand_ins

stand_ins.install()
cuda_on_cpu.install()

import torch  # noqa: E402 - SGLang is imported only after the stand-ins
from sglang.srt import runtime_context  # noqa: E402
from sglang.srt.distributed import parallel_state  # noqa: E402
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend  # noqa: E402
from sglang.srt.layers.logits_processor import LogitsProcessorOutput  # noqa: E402
from sglang.srt.model_executor.cuda_graph_config import Backend, CudaGraphConfig, PhaseConfig  # noqa: E402
from sglang.srt.model_executor.forward_batch_info import ForwardMode  # noqa: E402
from sglang.srt.model_executor.graph_shared_output import GraphSharedOutput  # noqa: E402
from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner  # noqa: E402
from sglang.srt.model_executor.runner.prefill_cuda_graph_runner import PrefillCudaGraphRunner  # noqa: E402
from sglang.srt.model_executor.runner.shape_key import ShapeKey  # noqa: E402
from sglang.srt.model_executor.runner_backend import utils as runner_backend_utils  # noqa: E402
from sglang.srt.model_executor.runner_backend_utils.breakable_cuda_graph import (  # noqa: E402
    breakable_cuda_graph,
    eager_on_graph,
)
from sglang.srt.multimodal.vit_cuda_graph_runner import ViTCudaGraphRunner  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.speculative import multi_layer_eagle_draft_extend_cuda_graph_runner as multi_layer  # noqa: E402
from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner  # noqa: E402
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import (  # noqa: E402
    EAGLEDraftExtendCudaGraphRunner,
)
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402
from sglang.srt.speculative.uno_cuda_graph_runner import UnoDecodeCudaGraphRunner  # noqa: E402

VERSION = metadata.version("sglang")
HIDDEN, VOCABULARY, LAYERS = 16, 32, 2
SIZES = (1, 2, 4)
TOKENS = (8, 16)
STEPS = 2

breakable_cuda_graph.get_device_module = lambda: torch.cuda


@contextmanager
def running(*, profile: bool = False, world: tuple[int, int, Path] | None = None, **places: int) -> Iterator[None]:
    """Publish one rank's configuration and build its process groups, as a scheduler process does at start-up.

    `world` is a rank, the tensor parallel size and where the ranks meet. `places` says which rank of which world to be
    seen as, `pp_rank=1, pp_size=2` and the like, while the groups stay those of this one process.
    """
    rank, size, meeting = world or (0, 1, Path(tempfile.mkdtemp()) / "rendezvous")
    runtime_context.publish(
        ServerArgs(
            model_path="dummy",
            device="cpu",
            tp_size=size,
            enable_profile_cuda_graph=profile,
            disable_chunked_prefix_cache=True,
        ),
        role="scheduler",
        ranks=runtime_context.SpawnRanks(world_rank=rank),
    )
    parallel_state.init_distributed_environment(
        world_size=size, rank=rank, local_rank=rank, backend="gloo", distributed_init_method=f"file://{meeting}"
    )
    parallel_state.initialize_model_parallel()
    configure()
    # Not by its own override: that would hold the world against the groups of this one process.
    runtime_context.get_parallel()._overrides.update(places)
    torch.manual_seed(0)
    yield


def configure(
    *, decode: str = Backend.FULL, prefill: str = Backend.BREAKABLE, sizes: Sequence[int] = SIZES, **fields: Any
) -> None:
    """Choose the graph backends and any other server argument."""
    graphs = CudaGraphConfig(
        decode=PhaseConfig(backend=decode, bs=list(SIZES)),
        prefill=PhaseConfig(backend=prefill, bs=list(TOKENS), full_prefill_max_req=2),
    )
    runtime_context.get_context().override("tests", cuda_graph_config=graphs, **fields)


class TinyLayer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + attend(self.down(torch.relu(self.up(hidden))))


@eager_on_graph
def attend(hidden: torch.Tensor) -> torch.Tensor:
    """Where the breakable backend cuts its graph."""
    return torch.softmax(hidden, dim=-1)


class TinyBody(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = torch.nn.ModuleList(TinyLayer() for _ in range(LAYERS))

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: Any) -> torch.Tensor:
        hidden: torch.Tensor = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


class TinyModel(torch.nn.Module):
    shared_experts_config = None

    def __init__(self) -> None:
        super().__init__()
        self.model = TinyBody()
        self.head = torch.nn.Linear(HIDDEN, VOCABULARY)
        self.broken_at: int | None = None
        self.plain_output = False

    @torch.no_grad()
    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: Any) -> Any:
        if self.broken_at == forward_batch.batch_size and cuda_on_cpu.log.live:
            raise RuntimeError("an illegal memory access was encountered")
        hidden = self.model(input_ids, positions, forward_batch)
        select = getattr(forward_batch.spec_info, "select_index", None)
        rows = hidden if select is None else hidden.index_select(0, select)
        if self.plain_output:
            logits: torch.Tensor = self.head(rows)
            return logits
        return LogitsProcessorOutput(next_token_logits=self.head(rows), hidden_states=hidden)


class NoAttention(AttentionBackend):
    """An attention backend that keeps no metadata; it counts how often it was told that a warm-up is over."""

    def __init__(self) -> None:
        self.attn_backends = [self]
        self.warmed_up = 0

    def init_cuda_graph_state(self, *args: Any, **kwargs: Any) -> None: ...

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return 1

    def on_after_cuda_graph_warmup(self) -> None:
        self.warmed_up += 1


class TinyModelRunner:
    """What the graph runners ask of SGLang's `ModelRunner`."""

    def __init__(self, *, draft: bool = False, algorithm: SpeculativeAlgorithm = SpeculativeAlgorithm.NONE) -> None:
        self.device = "cpu"
        self.gpu_id = 0
        self.dtype = torch.float32
        self.model = TinyModel()
        self.is_draft_worker = draft
        self.is_generation = True
        self.spec_algorithm = algorithm
        self.attn_backend = NoAttention()
        self.draft_attn_backend = NoAttention()
        self.server_args = runtime_context.get_server_args()
        hf_config = SimpleNamespace(
            model_type="llama", architectures=["TinyModel"], hidden_size=HIDDEN, num_hidden_layers=LAYERS
        )
        self.model_config = SimpleNamespace(
            hidden_size=HIDDEN,
            vocab_size=VOCABULARY,
            dtype=self.dtype,
            is_encoder_decoder=False,
            is_multimodal=False,
            context_len=128,
            hf_config=hf_config,
            hf_text_config=hf_config,
            spec_hidden_size=HIDDEN,
        )
        self.req_to_token_pool = SimpleNamespace(size=64, req_to_token=torch.zeros(64, 128, dtype=torch.int32))
        self.ngram_embedding_manager = SimpleNamespace(enabled=False, table=None)
        self.kv_index_translator = SimpleNamespace(bind_runner_slots=lambda batch: None)
        self.graph_shared_output = GraphSharedOutput(device=torch.device("cpu"), max_rows=1024)
        self.pp_group = SimpleNamespace(is_first_rank=True, is_last_rank=True)
        self.uno_lora_id: str | None = None
        self.lora_manager: Any = None
        self.hisparse_coordinator = self.canary_manager = None
        self.capture_head_hooks: list[Any] = []
        self.capture_tail_hooks: list[Any] = []
        self.attention_layers: list[Any] = []
        self.mha_companion_layers: list[Any] = []
        self.moe_layers: list[Any] = []
        self.moe_fusions: list[Any] = []

    def decode_num_tokens_per_req(self, num_draft_tokens: int | None = None) -> int:
        return num_draft_tokens or 1

    def get_pp_proxy_topk_size(self) -> None: ...

    def get_pp_proxy_residual_num_blocks(self) -> None: ...

    def get_pp_proxy_dspark_hidden_size(self) -> int:
        return 0

    def get_aux_hidden_states_width(self) -> int:
        return 0

    def attn_tp_sequence_sharded(self, num_tokens: int) -> bool:
        return False

    def prepare_dummy_forward_batch(self, forward_batch: Any) -> Any:
        return forward_batch


class EagleWorker:
    """What the EAGLE runners ask of their worker: a draft model, its attention backends, one step of drafting."""

    seed_dsa_topk_from_draft_extend = False
    hot_token_id = None
    speculative_algorithm = SpeculativeAlgorithm.EAGLE
    device = "cpu"
    gpu_id = 0
    draft_extend_num_front_tokens = 0
    chain_mtp_hidden_states = False
    use_rejection_sampling = False
    topk = 1

    def __init__(self, steps: int = STEPS) -> None:
        self.speculative_num_steps = steps
        self.draft_runner = TinyModelRunner(draft=True, algorithm=SpeculativeAlgorithm.EAGLE)
        self.draft_extend_attn_backend = NoAttention()
        self.draft_extend_attn_backend_list = [NoAttention() for _ in range(steps)]

    def mtp_model_runner(self, step: int) -> TinyModelRunner:
        return self.draft_runner

    def draft_forward(self, forward_batch: Any) -> torch.Tensor:
        hidden = forward_batch.spec_info.hidden_states
        for _ in range(self.speculative_num_steps):
            for layer in self.draft_runner.model.model.layers:
                hidden = layer(hidden)
        return self.draft_runner.model.head(hidden)


def decode(
    algorithm: SpeculativeAlgorithm = SpeculativeAlgorithm.NONE,
    *,
    broken_at: int | None = None,
    plain_output: bool = False,
) -> DecodeCudaGraphRunner:
    """The target's decode graphs, or its verify graphs where it speculates.

    `broken_at` is the size whose capture raises; `plain_output` is all that the breakable backend takes.
    """
    runner = TinyModelRunner(algorithm=algorithm)
    runner.model.broken_at, runner.model.plain_output = broken_at, plain_output
    return DecodeCudaGraphRunner(runner)


def prefill() -> PrefillCudaGraphRunner:
    return PrefillCudaGraphRunner(TinyModelRunner())


def eagle_draft(steps: int = STEPS) -> EAGLEDraftCudaGraphRunner:
    return EAGLEDraftCudaGraphRunner(EagleWorker(steps), speculative_num_steps=steps)


def eagle_draft_extend(steps: int = STEPS) -> EAGLEDraftExtendCudaGraphRunner:
    return EAGLEDraftExtendCudaGraphRunner(EagleWorker(steps), speculative_num_steps=steps)


def multi_layer_eagle() -> Any:
    """One runner for each draft step, all of one class."""
    return multi_layer.MultiLayerEagleMultiStepDraftExtendCudaGraphRunner(EagleWorker())


def single_graph_eagle() -> Any:
    """All draft steps in one graph."""
    return multi_layer.OneGraphMultiLayerEagleMultiStepDraftExtendCudaGraphRunner(EagleWorker())


def tree_uno_verify() -> UnoDecodeCudaGraphRunner:
    """Tree UNO verifies with the target's own weights .."""
    return UnoDecodeCudaGraphRunner(_uno_model_runner())


def tree_uno_draft() -> UnoDecodeCudaGraphRunner:
    """.. and drafts with its adapter, in a second runner of the same class."""
    return UnoDecodeCudaGraphRunner(_uno_model_runner(), tree_draft_attn_backend=NoAttention(), tree_draft_width=2)


def xpu_decode() -> Any:
    """SGLang's XPU backend, as its resolver gives it, capturing one size: a whole runner needs tensors on an XPU."""
    model_runner = SimpleNamespace(device="xpu", is_draft_worker=False)
    runner = SimpleNamespace(
        model_runner=model_runner, device_module=torch.xpu, capture_forward_mode=ForwardMode.DECODE, capture=None
    )
    runner.backend = runner_backend_utils.resolve_decode_backend(runner)
    layer, hidden = TinyLayer(), torch.zeros(1, HIDDEN)
    with runner.backend.capture_session(torch.xpu.Stream()):
        runner.backend.capture_one(ShapeKey(1), torch.no_grad()(lambda: layer(hidden)))
    return runner


class TinyVisionBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = SimpleNamespace(
            qkv_backend_name="triton_attn", num_attention_heads_per_partition=1, head_size=HIDDEN
        )
        self.layer = TinyLayer()

    @torch.no_grad()
    def forward(self, x: torch.Tensor, cu_seqlens: Any, position_embeddings: Any, output_ws: torch.Tensor) -> Any:
        return self.layer(x)


class TinyVision(torch.nn.Module):
    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(TinyVisionBlock() for _ in range(LAYERS))
        self.merger = torch.nn.Identity()


def vision_encoder(*layouts: Sequence[int]) -> ViTCudaGraphRunner:
    """Encode batches of images, each a list of its images' patches: the first of a layout captures a graph."""
    runner = ViTCudaGraphRunner(TinyVision())
    for layout in layouts:
        bounds = torch.tensor([0, *layout]).cumsum(0).to(torch.int32)
        patches, angles = torch.zeros(sum(layout), 1, HIDDEN), torch.zeros(sum(layout), HIDDEN)
        runner.create_graph(patches, bounds, None, (angles, angles))
    return runner


def _uno_model_runner() -> TinyModelRunner:
    runner = TinyModelRunner(algorithm=SpeculativeAlgorithm.UNO)
    runner.uno_lora_id = "uno"
    runner.lora_manager = Adapters()
    return runner


class Adapters:
    """What the UNO runner asks of the LoRA manager: to route token rows to adapters, of which there are none."""

    def __init__(self) -> None:
        self.lora_backend = SimpleNamespace(skip_inactive_dense_lora=False, batch_info=SimpleNamespace())

    def init_decode_cuda_graph_batch_info(self, **sizes: int) -> None: ...

    def prepare_lora_token_segments(self, **segments: Any) -> None: ...

    def reset_lora_batch(self) -> None: ...


def _rotate_input_ids(
    input_ids: torch.Tensor, starts: torch.Tensor, lengths: torch.Tensor, next_ids: torch.Tensor, select: torch.Tensor
) -> None:
    """SGLang's Triton kernel of this name, in torch: each request's window moves on by one token."""
    windows = input_ids.view(starts.shape[0], -1)
    windows.copy_(torch.cat([windows[:, 1:], next_ids[:, :1]], dim=1))


multi_layer.rotate_input_ids = _rotate_input_ids
