# ruff: noqa: E501 - kernel names are long, and broken ones are hard to read
"""Kernel names: every rule by an example, hostile names in bounded time, and the labelled real names."""

from __future__ import annotations

import csv
import itertools
import re
import time
from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescope.analyse.names import name_frame
from shapescope.analyse.names.classes import CLASSES
from shapescope.analyse.names.kernel import kernel_name

ADD = "void at::native::{launcher}<4, at::native::CUDAFunctor_add<{type}>, std::array<char*, 3ul> >(int)"


def family(raw: str) -> str:
    return kernel_name(raw).family


SAME_FAMILY = {
    "ROCm suffix": ("attn_fwd", "attn_fwd.kd"),
    "mangled": ("_ZN4vllm14moe_sum_kernelIfLi8EEEvPT_", "void vllm::moe_sum_kernel<float, 8>(float*)"),
    "no return type": ("void foo::norm_kernel<float>(float*)", "foo::norm_kernel<float>"),
    "anonymous namespace": ("void (anonymous namespace)::store_kvcache<4>()", "void <unnamed>::store_kvcache<8>()"),
    "nsys casts": ("void v::rms_norm_kernel<4, true>(int)", "void v::rms_norm_kernel<(int)8, (bool)1>(T1)"),
    "condition in the return type": (
        "std::enable_if<(((8)>(0)))&&v::convert<float>::exists, void>::type v::rms_norm_kernel<float, 8>(float*)",
        "void v::rms_norm_kernel<float, 4>(float*)",
    ),
    "version namespace": (
        "void cub::CUB_200301_860_NS::DeviceScanKernel<int>(int*)",
        "void at_cuda_detail::cub::DeviceScanKernel<long>(long*)",
    ),
    "rocprim version": (
        "void rocprim::ROCPRIM_400001_NS::detail::onesweep_iteration_kernel<int>(int)",
        "void rocprim::ROCPRIM_400400_NS::detail::onesweep_iteration_kernel<long>(int)",
    ),
    "cuDNN packaging": ("cudnn_ampere_scudnn_128x64_relu_nn_v1", "cudnn_infer_ampere_scudnn_128x32_relu_nn_v1"),
    "CUTLASS launcher": (
        "void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>()",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>()",
    ),
    "array spelling": (
        ADD.format(launcher="vectorized_elementwise_kernel", type="float").replace("std::array", "at::detail::Array"),
        ADD.format(launcher="vectorized_elementwise_kernel", type="c10::BFloat16"),
    ),
    "Tensile types": ("Cijk_Alik_Bljk_B_BS_BH_Bias_MT16x16x64_MI16x16x1", "Cijk_Alik_Bljk_BBS_BH_MT32x32x64"),
    "NCCL order": (
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
        "ncclDevKernel_AllReduce_Sum_f32_TREE_LL(ncclDevKernelArgsStorage<4096ul>)",
    ),
    "NCCL without reduction": ("ncclKernel_AllGather_RING_LL_Sum_int8_t()", "ncclDevKernel_AllGather_RING_LL()"),
    "nvjet tile and architecture": ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm100_tst_128x8_64x8_1x1_splitK_TNT"),
    "Inductor counter": ("triton_poi_fused_silu_29", "triton_poi_fused_silu_3"),
    "Inductor without names": ("triton__0d1d2d", "triton__0d1d2d3de"),
    "Triton signature": ("_rms_norm_kernel_0d1d2d3de", "_rms_norm_kernel"),
    "short name": ("vectorized_layer_norm_kernel", "void at::native::vectorized_layer_norm_kernel<float>(int)"),
    "every copy": (
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda("
        "at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}>(int)::{lambda(int)#1}>(int)",
        "void at::native::elementwise_kernel<128, 4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)"
        "::{lambda(float)#1}>(int)",
    ),
    "CuTe DSL addresses": (
        "kernel_cutlass_kernel_libnormRMSNormKernel_object_at__tensorptrbf16o819281921_0",
        "kernel_cutlass_kernel_libnormRMSNormKernel_object_at__tensorptrbf16o409640961_0",
    ),
    "overload": ("aten::addmm", "aten::addmm.out"),
    "truncated": (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Coll...",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Coll<2>>>>(T1)",
    ),
    "trtllm-gen tile": (
        "bmm_E4m3_E4m3E4m3_Fp32_t128x16x128u2_s6_et64x16_rM_TN_dynB_sm100f",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x64x128u2_s3_et64x64_rM_TN_swiGlu_dynB_sm100f",
    ),
    "causal mask": ("aiter::fmha_fwd_hd128_bf16_causal", "_ZN5aiter32fmha_fwd_hd192_hd128_bf16_causalE"),
}  # fmt: skip

OTHER_FAMILY = {
    "launcher": tuple(
        ADD.format(launcher=launcher, type="float")
        for launcher in ("vectorized_elementwise_kernel", "elementwise_kernel")
    ),
    "operation": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<float>>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
    ),
    "scalar operand": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, MulFunctor<float>>>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, MulFunctor<float>>>(int)",
    ),
    "reduction": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(int)",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MaxOps<float>>>(int)",
    ),
    "function pointer": ("void v::act_and_mul_kernel<float, &silu<float>>()", "void v::act_and_mul_kernel<float, &gelu<float>>()"),
    "enum that chooses": ("void deep_gemm::fp8_gemm<4u, (deep_gemm::GemmType)0>()", "void deep_gemm::fp8_gemm<4u, (deep_gemm::GemmType)1>()"),
    "namespace": ("void flash::flash_fwd_kernel<64>()", "void pytorch_flash::flash_fwd_kernel<64>()"),
    "digit of the name": ("kernel_unified_attention_2d", "kernel_unified_attention_3d"),
    "stage": ("void vllm::cross_device_reduce_1stage<float, 2>()", "void vllm::cross_device_reduce_2stage<float, 2>()"),
    "direction": ("igemm_fwd_gtcx3_nhwc_bf16_bt128x128x32", "igemm_bwd_gtcx3_nhwc_bf16_bt128x128x32"),
    "collective": ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL()", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()"),
    "types of a product": ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_hsh_64x8_64x16_4x1_v_bz_TNT"),
    "output of a product": ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_tn", "ampere_s16816gemm_bf16_128x128_ldg8_tn"),
    "Inductor operators": ("triton_poi_fused_addmm_gelu_15", "triton_poi_fused_addmm_cat_gelu_15"),
    "Inductor template": ("triton_red_fused_sum_1", "triton_per_fused_sum_1"),
    "trtllm stage": ("fmhaSm100fKernel_QkvBfloat16Q128Kv128PersistentContext", "fmhaSm100fKernel_QkvBfloat16Q16Kv128SwapsAbForGen"),
    "scatter and gather": tuple(
        f"void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel<{flag}, "
        "float>::operator()<at::native::TensorAssign>(int)::{lambda(int)#1}>(int)"
        for flag in ("true", "false")
    ),
}  # fmt: skip

CLASS_OF = {
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT": "gemm",
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(int)": "gemm",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(int)": "gemm",
    "void marlin::Marlin<__half, 256, 1, 8, 8, 4, 8, false>(int4 const*)": "gemm",
    "Cijk_SB_BiasS_HAS_ScaleAlphaVec_PostGSU4_VW4": "gemm",
    "_bmm_chunk_fwd_kernel": "gemm",
    "fused_moe_kernel": "grouped_gemm",
    "void deep_gemm::fp8_gemm<4u, (deep_gemm::GemmType)1>()": "grouped_gemm",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": "grouped_gemm",
    "void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::Pipeline<int>>>(int)": "attention",
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u>()": "attention",
    "_ZN5aiter27pa_bf16_pertokenFp8_gqa8_1tgE": "attention",
    "void deep_gemm::sm90_fp8_paged_mqa_logits<1u>()": "attention",
    "triton_tem_fused_flex_attention_0": "attention",
    "void vllm::concat_and_cache_mla_kernel<float>()": "scatter",
    "void at::native::index_elementwise_kernel<128, 4, at::native::index_put_kernel_impl<int>(int)::{lambda()#1}>()": "scatter",
    "void flashinfer::norm::GemmaRMSNormKernel<8u, __nv_bfloat16>()": "norm",
    "void (anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float>>()": "reduction",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0": "norm",
    "triton_per_fused__softmax_add_1": "softmax",
    "triton_poi_fused_addmm_view_3": "copy",
    "triton_poi_fused_convolution_13": "elementwise",
    "triton_poi_fused_zeros_1": "fill",
    "triton_poi_fused_addmm_gelu_view_14": "activation",
    "triton_poi_fused_cat_cos_mul_sin_2": "rope",
    "fused_qk_rope_reshape_and_cache": "rope",
    "void vllm::moe::topkGatingSoftmax<8, 128>()": "moe_routing",
    "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024>()": "sampling",
    "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>()": "sort",
    "void cub::DeviceRadixSortOnesweepKernel<int>()": "sort",
    "chunk_gated_delta_rule_fwd_kernel_h_blockdim64": "scan",
    "_causal_conv1d_fwd_kernel": "conv",
    "void marlin::gptq_marlin_repack_kernel<4, 256, 4, true>()": "quant",
    "_fp8_activation_quantize_kernel": "quant",
    "silu_mul_fp8_quant_deep_gemm": "activation",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>()": "collective",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>()": "collective",
    "void at::native::distribution_elementwise_grid_stride_kernel<float, 4, int>()": "rng",
    "Memcpy DtoD (Device -> Device)": "copy",
    "Memset (Device)": "fill",
    "__amd_rocclr_fillBufferAligned.kd": "fill",
    "create_flashinfer_kv_indices_triton": "other",
    "void at::native::upsample_nearest2d_out_frame<float>()": "other",
    "aten::mm": "gemm",
    "aten::addmm.out": "gemm",
    "aten::mul": "elementwise",
    "aten::mul_.Tensor": "elementwise",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "attention",
    "aten::index_put_": "scatter",
    "aten::embedding": "embedding",
    "aten::copy_": "copy",
    "aten::native_layer_norm": "norm",
    "aten::_foreach_copy_": "copy",
    "c10d::allreduce_": "collective",
    "_c10d_functional::all_reduce": "collective",
    "mkldnn::_linear_pointwise": "gemm",
}  # fmt: skip


@pytest.mark.parametrize("rule", SAME_FAMILY)
def test_spelling_tile_and_counter_make_no_new_family(rule: str) -> None:
    one, other = SAME_FAMILY[rule]
    assert family(one) == family(other) != ""


@pytest.mark.parametrize("rule", OTHER_FAMILY)
def test_what_selects_another_kernel_makes_another_family(rule: str) -> None:
    one, other = OTHER_FAMILY[rule]
    assert family(one) != family(other)


@pytest.mark.parametrize("raw", CLASS_OF)
def test_class(raw: str) -> None:
    assert kernel_name(raw).kernel_class == CLASS_OF[raw]


def test_families_read_well() -> None:
    assert family("void flashinfer::norm::FusedAddRMSNormKernel<8u, __half>(T2)") == "flashinfer_fused_add_rms_norm"
    assert family("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_64x6_tn_align8>()") == (
        "cutlass_gemm_bf16_f32"
    )
    assert family(ADD.format(launcher="vectorized_elementwise_kernel", type="float")) == "vectorized_elementwise_add"
    assert family("aten::addmm.out") == "aten::addmm"
    assert family("Memcpy DtoH (Device -> Host)") == "memcpy_DtoH"


def test_variant_keeps_what_was_removed_in_order() -> None:
    assert kernel_name("nvjet_sm100_tst_64x32_64x16_2x4_2cta_h_bz_TNT").variant == "sm100_64x32_64x16_2x4_2cta_h_bz_TNT"
    assert kernel_name("void v::rms_norm_kernel<c10::BFloat16, 8, true, false>(int)").variant == "bf16_8_f10"
    assert kernel_name("Cijk_Alik_Bljk_BBS_BH_MT128x64x32_MI16x16x1_SN").variant == "MT128x64x32"
    assert kernel_name("triton_poi_fused_add_17").variant == "17"
    assert kernel_name("_rms_norm_kernel").variant == ""
    assert kernel_name("aten::addmm.out").variant == ""


@pytest.mark.parametrize("raw", ["some_weird_thing", "MyThing", "fooBarKernel", "#?!", "", "void", "_Zebra", "日本"])
def test_an_unknown_name_stays_itself(raw: str) -> None:
    assert (family(raw), kernel_name(raw).kernel_class, kernel_name(raw).variant) == (raw, "other", "")


HOSTILE = {
    "templates": "f<" * 5_000, "parentheses": "(" * 10_000, "braces": "{lambda(" * 1_200, "scopes": "a::" * 3_300,
    "mangled length": "_ZN" + "9" * 10_000, "mangled arguments": "_Z1fI" + "1aI" * 3_300,
    "substitutions": "_Z1fN1AI1BE1CIS0_S0_E1DIS2_S2_E1EIS4_S4_E1FIS6_S6_E1GIS8_S8_E1HISA_SA_E1IISC_SC_E1JISE_SE_EEv",
    "products": "gemm_" * 2_000 + "!", "types": "sm90_xmma_gemm_" + "mxf" * 1_300 + "!", "operators": "triton_poi_fused" + "_mean_pow" * 1_100,
    "clones": "f<" + "[clone " * 1_400, "suffixes": "f" + ".isra.1" * 1_400 + "x", "launchers": "void cutlass::Kernel<" * 500,
    "caches": "store_kv_" * 1_100, "underscores": "_" * 10_000, "camel": "aA" * 5_000, "casts": "f<" + "(a)" * 3_300 + "1>",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_name_costs_no_more_than_its_length(kind: str) -> None:
    start = time.perf_counter()
    name = kernel_name(HOSTILE[kind])
    assert time.perf_counter() - start < 2
    assert name.kernel_class in CLASSES


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(max_size=80),
        st.lists(
            st.sampled_from([*"<>(){}[],&*: ", "::", "void ", "at::native::", "gpu_kernel_impl", "f", "4u", "-2", "lambda",
                             "operator()", "const", "true", "_ZN", "1a", "nvjet_", "gemm", "Kernel", "_12", "triton_poi_fused_"]),
            max_size=40,
        ).map("".join),
    )
)  # fmt: skip
def test_any_text_has_a_reading(raw: str) -> None:
    name = kernel_name(raw)
    assert name.raw == raw
    assert name.kernel_class in CLASSES
    assert bool(name.family) == bool(raw)


def test_frame_has_one_row_a_distinct_name() -> None:
    names = pl.Series(["aten::mm", "Memset (Device)", None, "aten::mm"], dtype=pl.Categorical)
    frame = name_frame(names)
    assert frame.columns == ["kernel", "class", "family", "variant"]
    assert frame["kernel"].to_list() == ["aten::mm", "Memset (Device)"]
    assert frame["class"].to_list() == ["gemm", "fill"]
    assert name_frame(pl.Series([], dtype=pl.String)).schema == frame.schema


def rows(shared: Path, table: str) -> list[dict[str, str]]:
    with (shared / "cases" / f"{table}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_labelled_classes(shared: Path) -> None:
    labelled = [row for row in rows(shared, "kernel_names") if row["confidence"] != "low"]
    right = sum(kernel_name(row["name"]).kernel_class == row["class"] for row in labelled)
    assert right / len(labelled) >= 0.97


def test_labelled_pairs(shared: Path) -> None:
    pairs = rows(shared, "kernel_pairs")
    right = sum((family(p["name1"]) == family(p["name2"])) == (p["same_family"] == "yes") for p in pairs)
    assert right / len(pairs) >= 0.95


def test_labelled_families_group_alike(shared: Path) -> None:
    """B-cubed: for each row, how much of its group is its label's, and how much of its label's is in its group."""
    labelled = rows(shared, "kernel_names")
    found, true = defaultdict(set), defaultdict(set)
    for at, row in enumerate(labelled):
        found[family(row["name"])].add(at)
        true[row["family"]].add(at)
    pairs = [(found[family(row["name"])], true[row["family"]]) for row in labelled]
    precision = sum(len(group & label) / len(group) for group, label in pairs) / len(pairs)
    recall = sum(len(group & label) / len(label) for group, label in pairs) / len(pairs)
    assert 2 * precision * recall / (precision + recall) >= 0.95


def test_labelled_variants(shared: Path) -> None:
    """Every tile of the label that stands in the name is in the variant; different labels differ."""
    labelled = rows(shared, "kernel_names")
    for row in labelled:
        tiles = [tile for tile in re.findall(r"\d+(?:x\d+)+", row["variant"]) if tile in row["name"]]
        variant = kernel_name(row["name"]).variant
        assert all(tile in variant for tile in tiles), row["name"]
    for one, other in itertools.combinations(labelled, 2):
        if one["family"] == other["family"] and one["variant"] != other["variant"]:
            assert kernel_name(one["name"]).variant != kernel_name(other["name"]).variant
