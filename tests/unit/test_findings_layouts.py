"""What convolutions copy: by the recorded strides for ``channels-last`` where a memory format mends it, else for ``unasked-copy``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._prims_common import suggest_memory_format

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.layouts import layout
from ridgeline.findings.rules.bias_copy import LOUD_PCT
from ridgeline.profile import Finding

HALF = "c10::BFloat16"
N, C, H, W = 8, 64, 32, 32
OUT = 32

Given = tuple[list[int], list[int]]


def _first(*sizes: int) -> Given:
    """(sizes, strides) of a packed tensor in NCHW."""
    return list(sizes), list(torch.empty(sizes, device="meta").stride())


def _last(*sizes: int) -> Given:
    _, c, h, w = sizes
    return list(sizes), [h * w * c, 1, w * c, c]


def _slice(n: int, c: int, h: int, w: int, of: int) -> Given:
    return [n, c, h, w], [h * w * of, 1, w * of, of]


ODD: Given = ([1, C, H, W], [C, 1, W * C, C])
"""``permute`` before ``unsqueeze``."""


# -- layouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "order", "packed", "for_last"),
    [
        (_first(2, 3, 4, 5), "first", True, False),
        (_last(2, 3, 4, 5), "last", True, True),
        (_slice(2, 3, 4, 5, 6), "last", False, True),
        (([2, 3, 4, 5], [120, 20, 5, 1]), "first", False, False),
        (_first(2, 1, 4, 5), "either", True, False),
        (_first(2, 3, 1, 1), "either", True, False),
        (([2, 3, 1, 1], [3, 1, 3, 3]), "either", True, True),
        (([1, 3, 4, 5], [3, 1, 15, 3]), "last", True, False),
        (([1, 3, 4, 5], [60, 1, 15, 3]), "last", True, True),
        (([2, 3, 4, 5], [1, 2, 6, 24]), "other", False, False),
        (([2, 3, 4, 5], [0, 0, 0, 0]), "other", False, False),
        (([2, 3, 4, 4, 5], [240, 1, 60, 15, 3]), "last", True, True),
    ],
)
def test_layouts(tensor: Given, order: str, packed: bool, for_last: bool) -> None:
    found = layout(*tensor)
    assert found is not None
    assert (found.order, found.packed, found.for_last) == (order, packed, for_last)


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [
        ([], []),
        ([2, 3, 4], [12, 4, 1]),
        ([2, 3, 4, 5], []),
        ([2, 0, 4, 5], [1, 1, 1, 1]),
        ([2, 3, 4, 5], [-1, 1, 1, 1]),
    ],
)
def test_what_has_no_layout(sizes: list[int], strides: list[int]) -> None:
    assert layout(sizes, strides) is None


@given(st.lists(st.integers(1, 3), min_size=4, max_size=5), st.data())
def test_torch_takes_it_for_the_same(sizes: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    base = torch.empty([sizes[d] for d in order], device="meta")
    tensor = base.permute([order.index(d) for d in range(len(sizes))])
    if data.draw(st.booleans()):
        tensor = tensor[:, : max(1, sizes[1] - 1)]
    found = layout(list(tensor.shape), list(tensor.stride()))
    assert found is not None
    # Where memory lies both ways the Python mirror in torch calls it contiguous first; the strides alone decide here.
    if not tensor.is_contiguous():
        assert found.for_last == (suggest_memory_format(tensor) in (torch.channels_last, torch.channels_last_3d))


# -- copies within convolutions ---------------------------------------------------------------------------------------


def _recorded(
    source: Given,
    target: Given,
    operands: list[Given],
    *,
    op: str = "aten::convolution_backward",
    under: str | None = None,
    strides: bool = True,
    took: float = 200.0,
    kernel: str = "elementwise_kernel",
) -> TraceBuilder:
    """Three steps of 1,000 µs in which a convolution copies one of its tensors, or cuDNN transposes one (``kernel``)."""

    def args(tensors: list[Given]) -> dict[str, Any]:
        return {
            "dims": [t[0] for t in tensors],
            "strides": [t[1] for t in tensors] if strides else None,
            "types": [HALF] * len(tensors),
        }

    b = TraceBuilder()
    for k in range(3):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "net.py", 5, "x = self.conv(x)")
        b.op(op, t + 1, 100, **args(operands))
        if kernel == "elementwise_kernel":
            if under:
                b.op(under, t + 2, 90, **args(operands))
            b.op("aten::contiguous", t + 5, 60, **args([source]))
            b.op("aten::copy_", t + 10, 40, **args([target, source]))
        b.kernel(kernel, t + 30, took, launched=t + 20)
        b.kernel("conv", t + 30 + took, 960.0 - took, launched=t + 80)
    return b


def _of(b: TraceBuilder) -> list[Finding]:
    return [f for f in find(b.context()) if f.code in ("channels-last", "unasked-copy")]


X1, XL = _first(N, C, H, W), _last(N, C, H, W)
G1, GL = _first(N, OUT, H, W), _last(N, OUT, H, W)
W1, WL = _first(OUT, C, 3, 3), _last(OUT, C, 3, 3)


@pytest.mark.parametrize(
    ("operands", "source", "target", "blamed", "says"),
    [
        ([X1, W1], X1, XL, "model", "model.to(memory_format=torch.channels_last) and the same for the input"),
        ([XL, W1], W1, WL, "model", "model.to(memory_format=torch.channels_last)"),
        ([X1, WL], X1, XL, "input", "The model is channels-last already"),
    ],
)
def test_what_a_memory_format_mends(
    operands: list[Given], source: Given, target: Given, blamed: str, says: str
) -> None:
    (finding,) = _of(_recorded(source, target, operands, op="aten::convolution"))
    assert finding.code == "channels-last"
    assert finding.saving_us == pytest.approx(200.0)
    assert finding.evidence["not_channels_last"] == blamed
    assert says in finding.message


def test_without_strides_the_advice_is_conditional() -> None:
    (finding,) = _of(_recorded(X1, XL, [X1, W1], op="aten::convolution", strides=False))
    assert finding.code == "channels-last"
    assert "no strides were recorded" in finding.message
    assert finding.saving_us == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("operands", "source", "target", "because", "says"),
    [
        ([GL, XL, WL], G1, GL, "gradient", "it arrives in NCHW from the operation after it"),
        ([_slice(N, OUT, H, W, 96), XL, WL], _slice(N, OUT, H, W, 96), GL, "part", "a larger tensor of 96 channels"),
    ],
)
def test_what_none_mends_is_a_hint_without_advice(
    operands: list[Given], source: Given, target: Given, because: str, says: str
) -> None:
    operands = [source, *operands[1:]]
    (finding,) = _of(_recorded(source, target, operands))
    assert (finding.code, finding.severity, finding.saving_us) == ("unasked-copy", "hint", None)
    assert (finding.evidence["because"], finding.evidence["operand"]) == (because, "gradient")
    assert says in finding.message
    assert finding.time_us == pytest.approx(200.0)


def test_a_kernel_that_knows_one_layout() -> None:
    (finding,) = _of(_recorded(XL, X1, [XL, WL], op="aten::convolution", under="aten::_conv_depthwise2d"))
    assert finding.severity == "hint"
    assert "from channels-last to NCHW, the only layout that aten::_conv_depthwise2d knows" in finding.message


@pytest.mark.parametrize("gradient", [_first(1, OUT, H, W), _last(1, OUT, H, W)], ids=["NCHW", "channels-last"])
@pytest.mark.parametrize(
    ("took", "severity"), [(10.0 * LOUD_PCT + 30.0, "information"), (10.0 * LOUD_PCT - 1.0, "hint")]
)
def test_a_batch_of_one_that_is_not_taken_for_channels_last(gradient: Given, took: float, severity: str) -> None:
    """A gradient in NCHW, half as large here, is copied to channels-last instead."""
    b = _recorded(ODD, _first(1, C, H, W), [gradient, ODD, WL], took=took)
    (finding,) = _of(b)
    left = OUT / C if gradient == _first(1, OUT, H, W) else 0.0
    assert (finding.code, finding.severity, finding.line) == ("unasked-copy", severity, 5)
    assert finding.saving_us == pytest.approx(took * (1.0 - left), rel=0.05)
    assert "x.unsqueeze(0).permute(0, 3, 1, 2)" in finding.message


@pytest.mark.parametrize(
    ("operands", "blamed"),
    [
        ([GL, XL, WL], None),
        ([_first(N, 1, H, W), XL, _last(1, C, 1, 1)], None),
        ([G1, X1, W1], "model"),
        ([GL, X1, WL], "input"),
    ],
    ids=["all channels-last", "one channel", "all NCHW", "the batch"],
)
def test_what_cudnn_transposes(operands: list[Given], blamed: str | None) -> None:
    found = _of(_recorded(X1, XL, operands, kernel="cudnn::nchwToNhwcKernel<bf16>"))
    assert [f.evidence["not_channels_last"] for f in found] == [blamed] * (blamed is not None)


def test_sequences_have_no_such_format() -> None:
    x, w = ([N, C, 512], [C * 512, 512, 1]), ([OUT, C, 3], [C * 3, 3, 1])
    assert not _of(_recorded(x, x, [x, w], op="aten::convolution", kernel="nchwToNhwcKernel<half>"))
