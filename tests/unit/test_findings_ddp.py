"""What DistributedDataParallel does of its own accord: copies out of its buckets, buffers that are broadcast as one."""

from __future__ import annotations

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.rules.bucket_copies import LOUD_PCT
from ridgeline.profile import Finding
from ridgeline.trace.tables import Work

GRADIENTS = 50
OUT = "torch.distributed.ddp.reducer::copy_bucket_to_grad"


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


def _copies(b: TraceBuilder, t: float, *, within: str | None) -> float:
    """One copy of 4 µs a gradient, its launch 12 µs after the one before."""
    for k in range(GRADIENTS):
        at = t + 12.0 * k
        if within is not None:
            b.op(within, at, 11)
        b.op("aten::copy_", at + 1, 9, dims=((100 + k,), (100 + k,)))
        b.kernel("Memcpy DtoD (Device -> Device)", at + 8, 4, launched=at + 3, work=Work.MEMCPY, nbytes=400.0)
    return t + 12.0 * GRADIENTS


def _steps(*, within: str | None, unflatten: bool = False, length: float = 3_000.0) -> TraceBuilder:
    b = TraceBuilder()
    for k in range(4):
        t = length * k
        b.step(t, length)
        b.line(t, t + length, "train.py", 30, "loss.backward()")
        b.kernel("gemm", t + 8, 1_900, launched=t + 1)
        if unflatten:
            b.op("aten::unflatten_dense_tensors", t + 1_960, 30)
        end = _copies(b, t + 2_000, within=within)
        b.kernel("gemm", end + 8, t + length - end - 10, launched=end + 1)
    return b


def test_copies_out_of_the_buckets_are_named_with_what_they_cost() -> None:
    found = find(_steps(within=OUT).context())
    (copies,) = _by_code(found, "bucket-copies")
    assert copies.evidence["copies_per_step"] == GRADIENTS
    assert copies.evidence["device_us_per_step"] == pytest.approx(4.0 * GRADIENTS)
    assert (copies.file, copies.line) == ("train.py", 30)
    assert copies.saving_us is not None
    assert copies.time_us is not None
    assert 0 < copies.saving_us <= copies.time_us
    assert not _by_code(found, "small-kernels"), "nobody wrote that loop"


def test_the_line_is_where_the_model_is_wrapped() -> None:
    text = "\n".join(["import torch"] * 10 + ["model = DDP(net, device_ids=[0])"])
    (copies,) = _by_code(find(_steps(within=OUT).context(sources={"train.py": text})), "bucket-copies")
    assert (copies.line, copies.file) == (11, "train.py")
    twice = text + "\nteacher = DDP(other)"
    (copies,) = _by_code(find(_steps(within=OUT).context(sources={"train.py": twice})), "bucket-copies")
    assert copies.line == 30, "which of the two it is the recording does not say"


def test_buffers_that_were_broadcast_as_one_are_no_loop_of_the_programs() -> None:
    assert not _by_code(find(_steps(within=None, unflatten=True).context()), "small-kernels")


def test_the_same_copies_in_a_loop_of_the_program_are() -> None:
    """The measure of the two above: without the library's marks it is found."""
    found = find(_steps(within=None).context())
    assert [f.line for f in _by_code(found, "small-kernels")] == [30]
    assert not _by_code(found, "bucket-copies")


@pytest.mark.parametrize(("part", "severity"), [(1.1 * LOUD_PCT, "information"), (0.9 * LOUD_PCT, "hint")])
def test_what_every_such_program_does_is_loud_only_where_it_costs_much(part: float, severity: str) -> None:
    saved = _by_code(find(_steps(within=OUT, length=6_000.0).context()), "bucket-copies")[0].saving_us
    assert saved is not None
    (copies,) = _by_code(find(_steps(within=OUT, length=100.0 * saved / part).context()), "bucket-copies")
    assert copies.saving_us == pytest.approx(saved, rel=0.02)
    assert copies.severity == severity
