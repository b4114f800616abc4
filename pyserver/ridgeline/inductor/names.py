"""Kernel names taken apart for people: ``triton_per_fused__softmax_add_3`` -> persistent reduction; softmax, add.

Inductor joins the *sorted* names of the fused ATen ops with underscores, and many of those names hold underscores
themselves, so a name is split by dynamic programming over the names that are known to hold one. A name alone is a
fallback: where the generated module is at hand, its ``Original ATen`` comment says the same without guessing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ridgeline.profile import Category

MAX_NAME = 2000
_KINDS: dict[str, tuple[Category, str]] = {
    "poi": ("pointwise", "pointwise"),
    "red": ("reduction", "reduction"),
    "per": ("persistent_reduction", "persistent reduction"),
    "tem": ("template", "template"),
    "for": ("foreach", "foreach"),
    "unk": ("other", "Triton kernel"),
    "spl": ("reduction", "split scan"),
}
_TRITON = re.compile(r"^triton_(?P<kind>poi|red|per|tem|for|unk|spl)_fused_(?P<ops>.*?)(?:_(?P<index>\d{1,9}))?$")
_CPP = re.compile(r"^(?:graph_\d+_)?(?:cpp|mps|halide|pallas)_(?:fused_)?(?P<ops>.*?)(?:_(?P<index>\d{1,9}))?$")
_GENERIC = re.compile(r"^triton_(?:_?\d+(?:d\d+)*d?\w*)?$|^triton_$|^triton_helpers|^kernel$|^Kernel$")
_SITE = re.compile(r"^(?P<kernel>.+)@(?P<line>\d{1,9})#(?P<stem>\w+)$")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

# Ops of ATen and prims, decomposed or not, whose own name holds an underscore and that Inductor fuses into kernels.
_COMPOUND = frozenset(
    """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _batch_norm_no_update
    _batch_norm_with_update _cdist_forward _conv_depthwise2d _efficient_attention_forward
    _efficient_attention_backward _embedding_bag _embedding_bag_forward_only _fft_c2c _fft_c2r _fft_r2c
    _flash_attention_forward _flash_attention_backward _fused_rms_norm _fused_rms_norm_backward _generalized_scatter
    _grouped_mm _int_mm _log_softmax _log_softmax_backward_data _masked_scale _masked_softmax
    _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _safe_softmax
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward _scaled_grouped_mm
    _scaled_mm _softmax _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put _unsafe_masked_index
    _unsafe_masked_index_put_accumulate _unsafe_view _weight_norm_interface _weight_norm_interface_backward
    adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool2d_backward as_strided as_strided_scatter avg_pool2d
    avg_pool2d_backward avg_pool3d avg_pool3d_backward batch_norm batch_norm_backward binary_cross_entropy
    binary_cross_entropy_backward binary_cross_entropy_with_logits bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor broadcast_in_dim clamp_max clamp_min constant_pad_nd convert_element_type
    convolution_backward copy_strided cross_entropy_loss cudnn_batch_norm cudnn_batch_norm_backward device_put diag_embed
    diagonal_scatter elu_backward embedding_backward embedding_dense_backward empty_like empty_strided expand_as
    flex_attention flex_attention_backward flex_decoding floor_divide full_like gather_backward gelu_backward
    glu_backward grid_sampler_2d grid_sampler_2d_backward group_norm hardsigmoid_backward hardswish_backward
    hardtanh_backward huber_loss huber_loss_backward index_add index_copy index_fill index_put index_put_ index_reduce
    index_select inductor_random inductor_randint inductor_lookup_seed inductor_seeds iota_ layer_norm leaky_relu
    leaky_relu_backward lift_fresh lift_fresh_copy linalg_vector_norm log_sigmoid log_sigmoid_backward log_sigmoid_forward
    log_softmax logical_and logical_not logical_or logical_xor masked_fill masked_scatter max_pool2d
    max_pool2d_with_indices max_pool2d_with_indices_backward mish_backward mse_loss mse_loss_backward nan_to_num
    native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty new_full new_ones new_zeros
    nll_loss nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward ones_like pixel_shuffle
    pixel_unshuffle plus_mm prepare_softmax_online rand_like randint_like randn_like reflection_pad1d
    reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward repeat_interleave replication_pad2d rms_norm
    rsub_scalar scalar_tensor scaled_dot_product_attention scatter_add scatter_reduce select_backward select_scatter
    sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss smooth_l1_loss_backward softplus_backward
    split_with_sizes std_mean tanh_backward threshold_backward unfold_backward upsample_bicubic2d upsample_bilinear2d
    upsample_bilinear2d_backward upsample_nearest2d upsample_nearest2d_backward var_mean view_as view_as_complex
    view_as_real xor_sum zeros_like copy_ add_ mul_ sub_ div_ zero_ fill_
    """.split()
)


@dataclass(slots=True, frozen=True, kw_only=True)
class KernelName:
    """A name taken apart."""

    name: str
    category: Category | None
    """None where the name alone does not tell."""
    kind: str | None
    """In words: ``persistent reduction``."""
    ops: tuple[str, ...]
    """As ATen spells them: ``_softmax``."""
    index: int | None

    @property
    def label(self) -> str:
        """For people: ``persistent reduction: softmax, add``; the name itself where nothing is known."""
        ops = ", ".join(op.strip("_") for op in self.ops)
        if self.kind is None:
            return self.name
        return f"{self.kind}: {ops}" if ops else self.kind


@lru_cache(maxsize=65536)
def take_apart(name: str) -> KernelName:
    """The parts of an Inductor kernel's name; for any other name only ``name`` is set."""
    if (match := _TRITON.match(name)) is not None:
        category, kind = _KINDS[match["kind"]]
        return _named(name, category, kind, match)
    if name.startswith(("cpp_", "graph_")) and (match := _CPP.match(name)) is not None:
        return _named(name, "cpp", "C++ kernel", match)
    if name.startswith("triton_tem") or name.startswith("triton_mm") or name.startswith("triton_flex_"):
        return KernelName(name=name, category="template", kind="template", ops=(), index=None)
    return KernelName(name=name, category=None, kind=None, ops=(), index=None)


def _named(name: str, category: Category, kind: str, match: re.Match[str]) -> KernelName:
    ops, number = match["ops"], match["index"]
    if number is None and ops.isdecimal() and len(ops) < 10:  # nothing but an index: ``cpp_fused_0``
        ops, number = "", ops
    return KernelName(
        name=name, category=category, kind=kind, ops=split_ops(ops), index=int(number) if number else None
    )


def split_ops(joined: str) -> tuple[str, ...]:
    """``_softmax_add`` -> (``_softmax``, ``add``): fewest words, compounds only from the known ones."""
    if not joined:
        return ()
    if len(joined) > MAX_NAME:  # nothing that Inductor wrote: its names are capped
        return (joined[:MAX_NAME],)
    # best[i]: the cheapest split of joined[:i], whose next word starts after the separator at i.
    best: list[tuple[int, tuple[str, ...]] | None] = [None] * (len(joined) + 1)
    starts = [-1, *(i for i, char in enumerate(joined) if char == "_")]
    for end in [*(i for i, char in enumerate(joined) if char == "_"), len(joined)]:
        for separator in starts:
            if separator >= end or (separator >= 0 and best[separator] is None):
                continue
            word = joined[separator + 1 : end]
            cost = _cost(word)
            if cost is None:
                continue
            before = best[separator] if separator >= 0 else (0, ())
            assert before is not None
            candidate = (before[0] + cost, (*before[1], word))
            current = best[end]
            if current is None or candidate[0] < current[0]:
                best[end] = candidate
    found = best[len(joined)]
    return found[1] if found is not None else tuple(part for part in joined.split("_") if part)


def _cost(word: str) -> int | None:
    if word in _COMPOUND:
        return 1
    if word and "_" not in word:
        return 2
    return None


def is_generic(name: str) -> bool:
    """Whether a device name says nothing (``triton_``, ``triton__0d1d2d3``), so that the launching op names the kernel."""
    return _GENERIC.match(name) is not None


def split_site(name: str) -> tuple[str, int, str] | None:
    """``cpp_fused_add_0@88#cabc`` (an instrumented call) -> (kernel, line, stem of the module file)."""
    match = _SITE.match(name)
    return (match["kernel"], int(match["line"]), match["stem"]) if match else None


def strip_addresses(name: str) -> str:
    """``<built-in method f of type object at 0x7f…>`` without the address, so that runs compare."""
    return _ADDRESS.sub("", name)
