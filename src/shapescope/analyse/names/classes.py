"""The class of a kernel from the words of its family: gemm, attention, norm .. or other.

Rules are tried in order, so that a fused kernel takes the first class that applies: collective > attention
> grouped_gemm > gemm > conv > moe_routing > sampling > rope > norm > softmax > activation > quant > embedding
> scatter > reduction > elementwise > copy > fill. What stands before its place in that order is an exception,
and says why.
"""

from __future__ import annotations

import re

CLASSES = (
    *("gemm", "grouped_gemm", "attention", "norm", "activation", "rope", "embedding", "moe_routing"),
    *("sampling", "softmax", "reduction", "elementwise", "copy", "fill", "collective", "quant", "conv"),
    *("sort", "scan", "scatter", "rng", "other"),
)
TYPED_CLASSES = frozenset({"gemm", "grouped_gemm", "conv"})

# Invariant: texts are cut and repetitions bounded, so that no hostile name makes a search expensive.
MAX_LENGTH = 512

# Texts are snake_case between underscores, `_flash_fwd_kernel_`: `_x_` is the word x, `_x` begins with x.
RULES: tuple[tuple[str, str], ...] = (
    (
        "collective",
        r"""nccl | rccl | msccl | all_?reduce | all_?gather | reduce_?scatter | all_?to_?all | all2all
        | a2a_ | cross_device_reduce | quick_?reduce | one_?shot | two_?shot | multimem
        | local_device_load | nvshmem | rocshmem | deep_ep_ | internode | intranode | c10d | symm_mem
        | lamport | mnnvl | _send_?recv | _(start|end)_sync_ | _dist_barrier | barrier_all | userbuffers
        | ep_(dispatch|combine)_""",
    ),
    # A fused rope that also stores is rope; any other store into the KV cache is an indexed write, whichever
    # attention it serves; index metadata is nobody's work.
    (
        "rope",
        r"""(rope|rotary)\w{0,24}(cache|insert|store|quant) | (cache|insert|store)\w{0,24}(rope|rotary)""",
    ),
    (
        "scatter",
        r"""_and_cache | append_paged | store_kv | set_kv | set_mla_kv | swap_blocks | copy_blocks
        | transfer_\w{0,24}kv
        | (store|set|write|copy|insert|append)_\w{0,24}(kv|mla|mha|k|paged|index)_?\w{0,24}(cache|buffer|pool)
        | (gather|load|swap|move)_\w{0,24}(kv|mla|mha|k|paged|index)_?\w{0,24}(cache|buffer|pool)
        | cache_\w{0,24}(copy|store|write|insert|scatter|append|gather|move) | gather_\w{0,24}cache
        | _kv_(store|insert|gather|copy|scatter)_ | _store_cache_""",
    ),
    (
        "other",
        r"""create_\w{0,24}kv_ind | _kv_ind(ices|ptr) | _build_\w{0,24}metadata
        | convert_\w{0,24}_ind(ices|ex)_to_ | req_to_token | block_table""",
    ),
    # Weights laid out anew for a product are quantisation's work, moved tokens are routing's.
    ("quant", r"_repack_ | reconstruct_exllama | shuffle_\d_?bit"),
    (
        "moe_routing",
        r"""ep_(scatter|gather|permute|post_reorder) | _(pre|post)_reorder_ | seg_indptr | src2dst
        | src_to_dst | compute_masked_m""",
    ),
    # Mamba's chunked product is a product.
    ("gemm", r"_bmm_chunk"),
    # State-space and gated-delta recurrences are scans, though some call themselves attention.
    (
        "scan",
        r"""delta_rule | _gdn_ | _gated_delta | selective_(scan|state) | chunk_(scan|state)
        | state_passing | _ssm | _ssd_ | _mamba | mamba_ | _rwkv | _wkv | _kda_ | _gla_
        | fused_recurrent | chunk_cumsum | _chunk_(fwd|bwd)_ | _kkt_ | recompute_w_u | _wy_
        | ^_fwd_(diag|none_diag|kv_parallel|kv_reduce) | solve_tril | merge_\w{0,24}_inverse
        | lightning_attn | linear_attn | lru_scan | _lookback_scan | causal_linear""",
    ),
    (
        "attention",
        r"""attn | attention | fmha | flash_(fwd|bwd|mla|attn|decode|prefill|infer|combine) | _flash_
        | _flash$ | flash_?mla | _mla_ | _mha_ | _mqa_ | _gqa_ | _sdpa_ | _xqa_ | _nsa_ | _sage_
        | _fa[234]_ | split_?kv | paged_?kv | paged_decode | (batch|single)_(prefill|decode)
        | with_kv_?cache | clean_logits | _(prefill|decode)_stage | merge_states?_ | _pa_
        | lse_(merge|combine) | combine_lse | _fwd_grouped_
        | ^_fwd_(grouped_)?(kernel|stage|inner|split|combine) | ^_fwd_$ | _fwd_stage
        | ^_bwd_(kernel|preprocess|inner|dq|dk|dv|dot|fuse) | ^_bwd_$ | ^_reduce_segments_$
        | _decode_grouped | _decode_softmax_reduce""",
    ),
    # Convolutions are lowered to gemm kernels whose names keep the convolution's direction.
    (
        "conv",
        r"""conv(?!er) | fft2d_(r2c|c2r) | [fb]prop | dgrad | wgrad | winograd | scudnn | cask_cudnn
        | _cudnn_cnn_ | \dcudnn | im2(col|d) | col2im | _igemm_(fwd|bwd|wrw) | _bwd_(weight|data)_""",
    ),
    (
        "grouped_gemm",
        r"""group(ed)?_?gemm | gemm_type[1-9] | _moe_\w{0,24}(gemm|_mm_|marlin|wna16|gemv)
        | gemm\w{0,24}_moe | _moe_mm_ | _fused_moe_(kernel|gptq|awq|lora) | ^_fused_moe_$ | _fmoe
        | _matmul_ogs | marlin_moe | moe_marlin | moe_wna16 | moe_mx?gemm | moe_(stage|up|down|gate)
        | _tgv_moe | expert\w{0,24}gemm | gemm\w{0,24}(expert|grouped) | grouped\w{0,24}(gemm|_mm_|matmul)
        | _ragged_\w{0,24}(dot|matmul|gemm) | _gmm_ | segment_gemm | problem_sizes
        | tma_warp_specialized_(kernel|input)
        | compute_strides_tma | _sgmv | _bgmv | _lora_(shrink|expand)""",
    ),
    (
        "gemm",
        r"""gemm | gemv | gevm | _mat_?mul | _mm_ | _bmm | _addb?mm | baddb?mm | scaled_mm | _dot_ | _addmv
        | _mv_ | _einsum_ | nvjet | cijk | post_?gsu | marlin_ | _machete | _linear_ | _qlinear
        | _awq_(?!dequant) | _gptq_ | _cublas_ | _tgv_ | split_?k_?(reduce|sum) | reduce_split_?k
        | reduce_1_block | wv_?split_?k | mul_mat | epilogue | _ll_?mm | _ll_gemm | skinny""",
    ),
    (
        "moe_routing",
        r"""moe | expert | routing | router | topk_?(gating|softmax|sigmoid) | _gating | _gate_
        | grouped_topk | _topk_(for|back)ward | bitmatrix | row_id_map | count_and_sort | sort_tokens
        | (un)?permute_tokens | token_permut | expand_input_rows""",
    ),
    (
        "sampling",
        r"""(?<!up)(?<!down)sampl | _top_?k_?(top_?p|renorm|mask) | _top_?p_ | _min_p_ | renorm_prob
        | multinomial | penalt | logit_?bias | rejection | gumbel | token_bitmask | speculative | _logprob
        | topk_log_softmax | temperature | greedy | verify_tree | _tree_""",
    ),
    ("rope", r"rope | rotary | kn_entry | _pos_?enc | _sincos_ | _rotate_half"),
    # A vector's norm is a reduction, and the normal distribution no norm.
    ("reduction", r"norm_(one|two|zero|ops) | lp_?norm | _norm_reduce | vector_norm | _linalg_norm"),
    (
        "rng",
        r"""distribution | random | _rand | dropout | philox | bernoulli | curand
        | normal_(fill|kernel|transform) | _normal_$ | _uniform_""",
    ),
    (
        "norm",
        r"""norm(?!al_) | _bn_(fw|bw) | gamma_beta | cu_compute_grad_input | rowwise_moments | _ln_(fwd|bwd)
        | _rms_""",
    ),
    ("softmax", r"soft_?max"),
    # What is quantised here is an activation in the other sense of the word.
    ("quant", r"activation_quant | act_quant(?!_and)"),
    (
        "activation",
        r"""silu | gelu | glu_ | relu | swish | sigmoid | tanh | _elu | mish_ | softplus | activation
        | act_and_mul | _hardshrink | _threshold_""",
    ),
    (
        "quant",
        r"""quant | _?to_h?fp[48] | _?to_float[48] | _fp[48]_to | hfp8 | fp8_?rowwise | rowwise_to_float
        | cast_to_fp | _cvt_fp | _repack | _nf4_ | nvfp4 | mxfp[48] | _scale_swizzle | swizzle_scale | ue8m0
        | scaled_fp | _int[48]_to | _to_int[48] | _scale_\d+x\d+ | block_scale | scale_interleave
        | convert_fp8 | fp8_convert | per_token_cast | amax_scale""",
    ),
    (
        "embedding",
        r"""embedding | _embed_ | _embs?_ | bounds_check_ind | krn_partial | partial_segment_offset
        | compute_grad_weight | sum_and_scatter""",
    ),
    ("scatter", r"index_(put|select|add|copy|fill) | indexing_backward | permute_\d_?d_(data|len)"),
    ("elementwise", r"masked_fill | _where_ | triu | tril_ | _adam | _sgd_ | _lamb_ | _adagrad"),
    (
        "sort",
        r"""(?<!search)sort | top_?k | radix | bitonic | onesweep | _merge_(blocks|oddeven|mergepath)
        | block_merge | kth_value""",
    ),
    (
        "scan",
        r"""_scan | scan_ | cum_?(sum|prod|max|min) | lookback | prefix_sum | device_select
        | _select_(kernel|if|sweep) | partition | compact_init | unique_by""",
    ),
    (
        "other",
        r"""pool | upsample | interpol | searchsorted | trs[mv] | potrf | getrf | _lu_ | cholesky | empty_
        | spin_ | _fft | _metadata | histogram""",
    ),
    (
        "scatter",
        r"""scatter | gather | index | get_rows | shuffle_rows | _take_ | _put_ | permut(?!e_\d) | kv_?cache
        | slot_mapping | cache_loc""",
    ),
    (
        "reduction",
        r"""reduc | _sum_ | _mean_ | _amax_ | _amin_ | arg_?(max|min) | _max_$ | _min_$ | _std_ | _var_
        | _any_ | _all_$ | _count_ | logsumexp | welford""",
    ),
    (
        "copy",
        r"""_copy | copy_ | memcpy | _cat_ | concat | transpos | _to_nhwc | _to_nchw | nhwc | _cast
        | contiguous | _pad(_|\dd) | _flip_ | _roll_ | _stack_ | _repeat_ | tensor_transform | layout
        | reorder | _slice_ | _split_$ | _unpack_ | _pack_ | _cpy_ | _split_with | op_with_transform""",
    ),
    (
        "fill",
        r"""fill | memset | op_with_scalar | _zero | zero_ | zeros | arange | linspace | _ones_ | _full_
        | init_(zero|buffer) | _eye_ | clear | clean_""",
    ),
    (
        "elementwise",
        r"""elementwise | pointwise | point_wise | _unary | _binary | _add | _mul | _sub_ | _div | _pow_
        | _exp_ | _log_ | _sqrt | _rsqrt | _abs_ | _neg_ | _clamp | _compare | _eq_ | _ne_ | _lt_ | _gt_
        | _le_ | _ge_ | _sin_ | _cos_ | bitwise | logical | _lerp | addc | _scale_ | _map_
        | multi_tensor | tensor_op | tensor_scalar | _bias | _isnan | _isfinite | _plus_ | _minus_
        | _multiplies | _maximum | _minimum | _round | _floor | _ceil | _erf | _reciprocal | _remainder
        | _fmod | unscale | _bin_bcast""",
    ),
)
COMPILED = tuple((kernel_class, re.compile(pattern, re.VERBOSE)) for kernel_class, pattern in RULES)

# Helpers that serve one operation take its class, but their data types make no family.
HELPER = re.compile(
    r"""split_?k_?reduce | reduce_?split_?k | offsets?_ | strides | im2(col|d) | col2im | prepare
    | workspace | _init | generate_ | winograd_\w{0,24}(data|filter|output|delta|generate|transform)
    | repack | _zero | post_?gsu | beta_only | _combine | _shuffle_ | transform_ | _helper""",
    re.VERBOSE,
)


def classify(*texts: str) -> str:
    """The class of the first text, in snake_case, that a rule speaks for; else `other`."""
    for text in texts:
        padded = _padded(text)
        for kernel_class, pattern in COMPILED:
            if pattern.search(padded):
                return kernel_class
    return "other"


def keeps_types(kernel_class: str, text: str) -> bool:
    """Whether data types belong to the family: those of products and convolutions, not of their helpers."""
    return kernel_class in TYPED_CLASSES and not HELPER.search(_padded(text))


def _padded(text: str) -> str:
    # A model and a library whose names hold the word, though what they name need be no product.
    return f"_{text[:MAX_LENGTH].strip('_')}_".replace("gemma", "model").replace("deep_gemm", "deep")
