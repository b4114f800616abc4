"""Which kind of work a kernel does.

What the recording says comes first: the copy kind, the launching op's Triton arguments, the ATen op that launched.
Names of kernels decide only where nothing else was recorded (CUDA graph replays, foreign traces).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ridgeline.profile import Category
from ridgeline.trace.tables import Work

_INDUCTOR_PREFIX: tuple[tuple[str, Category], ...] = (
    ("triton_poi_", "pointwise"),
    ("triton_red_", "reduction"),
    ("triton_per_", "persistent_reduction"),
    ("triton_spl_", "reduction"),
    ("triton_mix_", "reduction"),
    ("triton_tem_", "template"),
    ("triton_mm", "template"),
    ("triton_bmm", "template"),
    ("triton_convolution", "template"),
    ("triton_flex_", "template"),
    ("triton_for_", "foreach"),
)

# ATen ops by the work that they do; matched on the whole last part of "aten::name" less a trailing underscore.
_GEMM_OPS = frozenset(
    "mm addmm bmm baddbmm addbmm addmv mv dot vdot matmul linear _scaled_mm _int_mm _addmm_activation scaled_mm "
    "mkldnn_linear _linear_pointwise mkl_linear _mkl_linear linear_pointwise _grouped_mm _scaled_grouped_mm "
    "int_mm wrapped_quantized_linear _weight_int8pack_mm _weight_int4pack_mm".split()
)
_CONV_OPS = frozenset(
    "convolution _convolution cudnn_convolution cudnn_convolution_transpose convolution_backward mkldnn_convolution "
    "mkldnn_convolution_backward miopen_convolution miopen_depthwise_convolution thnn_conv2d _slow_conv2d_forward "
    "_slow_conv2d_backward slow_conv3d conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "_conv_depthwise2d conv_depthwise3d _convolution_pointwise convolution_overrideable "
    "convolution_backward_overrideable cudnn_convolution_relu cudnn_convolution_add_relu".split()
)
_ATTENTION = re.compile(
    r"(scaled_dot_product|flash_attn|flash_attention|efficient_attention|cudnn_attention|fmha|_fused_attention)"
)
_COMMUNICATION = re.compile(
    r"^(nccl|rccl|mccl|hccl|oneccl)|ncclDevKernel|ncclKernel|_c10d_functional|^c10d::|^record_param_comms$",
    re.IGNORECASE,
)
_REDUCTION_OPS = frozenset(
    "sum mean amax amin max min prod norm linalg_vector_norm std var argmax argmin logsumexp any all cumsum cumprod "
    "softmax _softmax log_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data native_layer_norm "
    "native_layer_norm_backward native_group_norm native_group_norm_backward native_batch_norm "
    "native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward _fused_rms_norm _fused_rms_norm_backward "
    "nll_loss_forward nll_loss_backward topk sort median".split()
)
_GEMM_NAME = re.compile(
    r"(gemm|nvjet|cublas|cutlass.*(tensorop|wmma|gemm)|xmma|_mm_|\bmatmul|Cijk_|gemv|dot_kernel|splitKreduce|splitk)",
    re.IGNORECASE,
)
_CONV_NAME = re.compile(
    r"(conv|winograd|implicit_gemm|implicit_convolve|dgrad|wgrad|nchwToNhwc|nhwcToNchw|miopen|naive_conv)",
    re.IGNORECASE,
)
_ATTENTION_NAME = re.compile(r"(flash_fwd|flash_bwd|fmha|attention|attn_fwd|attn_bwd|sdpa)", re.IGNORECASE)
_FOREACH_NAME = re.compile(r"(multi_tensor_apply|FusedAdam|fused_adam|foreach)", re.IGNORECASE)
_REDUCE_NAME = re.compile(
    r"(reduce_kernel|softmax|layer_norm|LayerNorm|RowwiseMoments|batch_norm|bn_fw|bn_bw|GammaBeta|cub::|nll_loss)",
    re.IGNORECASE,
)
_ELEMENTWISE_NAME = re.compile(
    r"(elementwise_kernel|_elementwise|CatArrayBatchedCopy|index_elementwise|FillFunctor)", re.IGNORECASE
)


def bare(op: str) -> str:
    """``aten::add_`` -> ``add``: the op's name less its namespace, overload and in-place mark."""
    name = op.rsplit("::", 1)[-1].split(".", 1)[0]
    return name.rstrip("_") if not name.startswith("_") or name.rstrip("_") else name


def _of_op(op: str) -> Category | None:
    if "_foreach_" in op or op.startswith(("aten::_fused_adam", "aten::_fused_sgd", "aten::_fused_adagrad")):
        return "foreach"
    if _ATTENTION.search(op):
        return "attention"
    if _COMMUNICATION.search(op):
        return "communication"
    name = bare(op)
    if name in _GEMM_OPS:
        return "gemm"
    if name in _CONV_OPS:
        return "convolution"
    if name in _REDUCTION_OPS:
        return "reduction"
    return None


def _of_inductor_name(name: str) -> Category | None:
    for prefix, category in _INDUCTOR_PREFIX:
        if name.startswith(prefix):
            return category
    return None


def _of_symbol(symbol: str) -> Category:
    if _COMMUNICATION.search(symbol):
        return "communication"
    if category := _of_inductor_name(symbol):
        return category
    for pattern, category in (
        (_ATTENTION_NAME, "attention"),
        (_FOREACH_NAME, "foreach"),
        (_CONV_NAME, "convolution"),
        (_REDUCE_NAME, "reduction"),
        (_ELEMENTWISE_NAME, "pointwise"),
        (_GEMM_NAME, "gemm"),
    ):
        if pattern.search(symbol):
            return category  # type: ignore[return-value]  # the literals above are categories
    return "other"


def classify(
    symbol: str,
    op_chain: Sequence[str],
    *,
    work: Work,
    on_cpu: bool,
    triton: bool,
    generated: bool,
) -> Category:
    """The category of one unit of work.

    ``op_chain`` holds the launching ops, innermost first; ``triton`` says that the launching op carries Triton's
    arguments, ``generated`` that Inductor wrote the kernel.
    """
    if work is Work.MEMCPY:
        return "memcpy"
    if work is Work.MEMSET:
        return "memset"
    name = op_chain[0] if op_chain else symbol
    if on_cpu:
        if name.startswith(("cpp_", "graph_")) and "cpp_" in name:
            return "cpp"
        for op in op_chain[:4]:
            if category := _of_op(op.removeprefix("extern_kernels.")):
                return category
        return "pointwise" if name.startswith(("aten::", "torch.ops.aten")) and _is_pointwise(bare(name)) else "other"
    if _COMMUNICATION.search(symbol):
        return "communication"
    if triton:
        if not generated:
            return "user_triton"
        # Inside torch.compile a user's own kernel is written into the module under its own name.
        return _of_inductor_name(name) or _of_inductor_name(symbol) or "user_triton"
    for op in op_chain[:4]:
        if category := _of_op(op.removeprefix("extern_kernels.")):
            # A GEMM op also launches helpers (split-K reduction, layout copies); they are its work all the same.
            return category
    category = _of_symbol(symbol)
    if category == "other" and op_chain and _is_pointwise(bare(op_chain[0])):
        return "pointwise"
    return category


_POINTWISE_OPS = frozenset(
    "add sub mul div neg abs exp log sqrt rsqrt pow sigmoid tanh relu gelu silu threshold threshold_backward clamp where "
    "copy to _to_copy fill zero addcmul addcdiv lerp gelu_backward sigmoid_backward tanh_backward silu_backward dropout "
    "native_dropout native_dropout_backward bernoulli uniform normal eq ne lt le gt ge maximum minimum cat stack clone "
    "contiguous masked_fill index_select gather scatter scatter_add index index_put embedding embedding_dense_backward "
    "arange erf sin cos bitwise_and bitwise_or bitwise_not logical_not logical_and logical_or reciprocal square sign "
    "floor ceil round remainder fmod addcmul hardtanh leaky_relu elu softplus hardswish mish triu tril flip roll".split()
)


def _is_pointwise(name: str) -> bool:
    return name in _POINTWISE_OPS
