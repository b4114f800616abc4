"""The tensors of a convolution, forwards and backwards, from its op's arguments: 2·N·Cout·Cin/groups·(kernel size)·(output positions)
FLOPs, the same again for the gradient of the input and of the weight (torch.utils.flop_counter, conv_flop_count)."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from ridgeline.roofline.gemm import tile_of
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor, base_name, tensors
from ridgeline.roofline.warp_fed import programs

FORWARD = {
    "convolution", "_convolution", "cudnn_convolution", "conv1d", "conv2d", "conv3d", "cudnn_convolution_relu",
    "cudnn_convolution_add_relu", "cudnn_convolution_transpose", "miopen_convolution", "mkldnn_convolution", "slow_conv2d_forward",
    "_slow_conv2d_forward", "thnn_conv2d", "conv_transpose2d", "_conv_depthwise2d", "conv_depthwise3d", "_convolution_pointwise",
    "convolution_overrideable", "conv_transpose1d", "conv_transpose3d",
}  # fmt: skip
KERNEL_SIZE_FIRST = {
    "_conv_depthwise2d",
    "conv_depthwise3d",
    "slow_conv2d_forward",
    "_slow_conv2d_forward",
    "thnn_conv2d",
}
"""Ops whose first list is the size of the filter."""
BACKWARD = {"convolution_backward", "cudnn_convolution_backward", "miopen_convolution_backward", "convolution_backward_overrideable"}  # fmt: skip
Makes = Literal["output", "input", "weight"]
"""What a kernel computes: the convolution, or its gradient in one of the two."""


@dataclass(slots=True, frozen=True)
class Convolution:
    """As a convolution that is not transposed: a transposed one makes its input of its output, as the gradient of another does."""

    input: Tensor
    weight: Tensor
    output_shape: tuple[int, ...]
    groups: int
    makes: Makes

    @property
    def flops(self) -> float:
        positions = math.prod(self.output_shape[2:])
        taps = math.prod(self.weight.shape[2:])
        batch = self.input.shape[0]
        return 2.0 * batch * positions * taps * self.weight.shape[0] * self.weight.shape[1]

    @property
    def output_bytes(self) -> int:
        return math.prod(self.output_shape) * self.input.itemsize

    @property
    def used_bytes(self) -> float:
        """Of the input what any filter reaches: with a stride beyond the filter's size it skips pixels, which lie apart where the
        channels run fastest."""
        source = self.input
        if not source.strides or source.strides[1] != 1:
            return float(source.bytes)
        reached = 1.0
        for size, taps, out in zip(source.shape[2:], self.weight.shape[2:], self.output_shape[2:]):
            reached *= min(1.0, taps * out / size)
        return source.bytes * reached

    @property
    def phases(self) -> int:
        """Positions that differ in which taps reach them: as many as the product of the strides."""
        sizes = zip(self.input.shape[2:], self.output_shape[2:])
        return math.prod(max(1, round(size / max(1, made))) for size, made in sizes)

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.weight.shape[1] == 1


def convolution(kernel: KernelInput) -> Convolution | None:
    """Shapes of a convolution from its op's arguments; None for other ops or where shapes are missing."""
    name = base_name(kernel)
    found = [t for t in tensors(kernel) if len(t.shape) >= 3]
    values = [_literal(v) for v in kernel.concrete_inputs or []]
    if len({len(t.shape) for t in found[:3]}) > 1 or not all(t.elements for t in found[:3]):
        return None
    if name in BACKWARD and len(found) >= 3:
        gradient, source, weight = found[0], found[1], found[2]
        if _flag(values):
            work = Convolution(gradient, weight, source.shape, _written_groups(values), "output")
        else:
            work = Convolution(source, weight, gradient.shape, _groups(source, weight), "input")
        return replace(work, makes="weight") if weight_gradient(kernel, work) else work
    if name not in FORWARD or len(found) < 2:
        return None
    source, weight = found[0], found[1]
    transposed = "transpose" in name or (name in ("convolution", "_convolution") and _flag(values))
    groups = _written_groups(values) if transposed else _groups(source, weight)
    lists = [v for v in values if isinstance(v, list) and v and all(isinstance(n, int) for n in v)]
    if name in KERNEL_SIZE_FIRST:
        lists = lists[1:]
    spatial = len(source.shape) - 2
    if name.startswith(("cudnn", "miopen")) and len(lists) >= 2:
        if "transpose" in name and len(lists) > 3:
            del lists[1]  # what is added to the output's sides
        padding, stride = lists[0], lists[1]
    else:
        stride, padding = (lists[0] if lists else [1]), (lists[1] if len(lists) > 1 else [0])
    dilation = lists[2] if len(lists) > 2 else [1]
    stride, padding, dilation = (_wide(v, spatial) for v in (stride, padding, dilation))
    if len(weight.shape) != len(source.shape):
        return None
    if transposed:
        sizes = [
            (n - 1) * s - 2 * p + d * (w - 1) + 1
            for n, w, s, p, d in zip(source.shape[2:], weight.shape[2:], stride, padding, dilation)
        ]
        channels = weight.shape[1] * groups
    else:
        sizes = [
            (n + 2 * p - d * (w - 1) - 1) // max(1, s) + 1
            for n, w, s, p, d in zip(source.shape[2:], weight.shape[2:], stride, padding, dilation)
        ]
        channels = weight.shape[0]
    if any(n <= 0 for n in sizes):
        return None
    made = (source.shape[0], channels, *sizes)
    if transposed:
        image = Tensor(source.position, made, None, source.type, source.itemsize)
        return Convolution(image, weight, source.shape, groups, "input")
    return Convolution(source, weight, made, groups, "output")


def weight_gradient(kernel: KernelInput, work: Convolution) -> bool:
    """Whether a kernel of a convolution's gradient makes that of its filters: by its name, or by the tiles of a plain product."""
    symbol = kernel.symbol.lower()
    if "wgrad" in symbol or "weight" in symbol:
        return True
    if "gemv" in symbol:  # of one filter the gradient of the image has no sums
        return work.weight.shape[0] == 1
    tile = tile_of(symbol)
    if tile is None or "gemm" not in symbol or "dgrad" in symbol or "fprop" in symbol or len(kernel.grid or ()) != 3:
        return False
    filters, channels = work.weight.shape[0], math.prod(work.weight.shape[1:])
    positions = work.input.shape[0] * math.prod(work.input.shape[2:])
    tiles = [
        min(-(-m // a) * -(-n // b) for a, b in (tile[:2], tile[1::-1]))
        for m, n in ((filters, channels), (positions, channels))
    ]
    return programs(kernel) < tiles[1] and math.prod((kernel.grid or (1,))[:2]) <= 2 * tiles[0]


def _literal(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return None


def _flag(values: list[Any]) -> bool:
    return next((v for v in values if isinstance(v, bool)), False)


def _written_groups(values: list[Any]) -> int:
    """The only whole number among the arguments: a transposed convolution's filters do not tell them."""
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), 1)


def _groups(source: Tensor, weight: Tensor) -> int:
    whole = source.shape[1] // weight.shape[1] if weight.shape[1] and source.shape[1] % weight.shape[1] == 0 else 1
    return max(1, whole)


def _wide(values: list[int], spatial: int) -> list[int]:
    return (values * spatial)[:spatial] if len(values) == 1 else values[:spatial]
