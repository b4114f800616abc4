"""A program's own Triton kernels: bytes, FLOPs and bound of each launch from the arguments that the agent noted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hand_written import ATTEND, GELU, HEAD, MATMUL, SOFTMAX
from ridgeline.assemble.direct import direct_launches
from ridgeline.roofline import KernelInput, estimate
from ridgeline.roofline.inputs import Launched, LaunchedArgument
from ridgeline.roofline.launched import configuration
from ridgeline.roofline.triton_model import analyse
from ridgeline.sidecar import Sidecar, TritonKernel
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table
from roofline_kernels import H200

SCALE = """
import triton
import triton.language as tl

HALF = tl.constexpr(0.5)

@triton.jit
def scale(X, bias, Y, rows, cols, stride, ACTIVATION: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < cols
    x = tl.load(X + row * stride + i, mask=mask)
    if HAS_BIAS:
        x += tl.load(bias + i, mask=mask)
    if bias is not None and ACTIVATION == "erf":
        x = tl.erf(x)
    elif ACTIVATION == "half":
        x = x * HALF
    tl.store(Y + row * stride + i, x.to(Y.dtype.element_ty), mask=mask)
"""
LOOP = """
import triton
import triton.language as tl

@triton.jit
def gather_sum(x_ptr, y_ptr, n, parts, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(x_ptr + part * n + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, total, mask=i < n)
"""


def tensor(name: str, *size: int, type: str = "float32") -> LaunchedArgument:
    strides = [int(np.prod(size[i + 1 :])) for i in range(len(size))]
    return LaunchedArgument(name=name, size=size, stride=tuple(strides), type=type)


def value(name: str, given: Any) -> LaunchedArgument:
    return LaunchedArgument(name=name, value=given)


def launch(text: str, symbol: str, grid: int, us: float, *arguments: LaunchedArgument) -> KernelInput:
    return KernelInput(
        name=symbol,
        symbol=symbol,
        category="user_triton",
        duration_us=us,
        count=1,
        grid=(grid, 1, 1),
        block=(128, 1, 1),
        launched=Launched(text=text, arguments=arguments),
    )


def scaled(activation: Any, bias: bool, us: float = 48.0, type: str = "float32") -> KernelInput:
    return launch(
        SCALE, "scale", 16384, us,
        tensor("X", 16384, 2000, type=type), tensor("bias", 2000, type=type) if bias else value("bias", None),
        tensor("Y", 16384, 2000, type="bfloat16"), value("rows", 16384), value("cols", 2000), value("stride", 2000),
        value("ACTIVATION", activation), value("HAS_BIAS", bias), value("BLOCK", 2048),
    )  # fmt: skip


def test_bytes_follow_from_shapes_types_and_masks() -> None:
    plain = estimate(scaled("half", False), H200)
    assert plain.bytes == 16384 * 2000 * (4 + 2)  # what the mask leaves of 2048 columns
    assert plain.bound == "memory"
    assert estimate(scaled("half", False, type="bfloat16"), H200).bytes == 16384 * 2000 * (2 + 2)
    assert estimate(scaled("half", True), H200).bytes == 16384 * 2000 * (4 + 2) + 2000 * 4


def test_branches_on_constants_are_decided() -> None:
    erf, without = analyse(scaled("erf", True)), analyse(scaled("erf", False))
    assert erf is not None
    assert without is not None
    assert "erf" in erf.warp.by_operation
    assert "erf" not in without.warp.by_operation  # ``bias is not None`` is false
    assert "erf" not in analyse(scaled("half", True)).warp.by_operation  # type: ignore[union-attr]
    assert erf.warp.issued > 2 * without.warp.issued
    assert configuration(scaled("erf", True)) == "ACTIVATION=erf,HAS_BIAS=True,BLOCK=2048"


@pytest.mark.parametrize("parts", [3, 40])
def test_a_loop_runs_as_often_as_its_argument_says(parts: int) -> None:
    n = 1 << 22
    kernel = launch(
        LOOP, "gather_sum", n // 1024, 400.0,
        tensor("x_ptr", parts, n), tensor("y_ptr", n), value("n", n), value("parts", parts), value("BLOCK", 1024),
    )  # fmt: skip
    found = analyse(kernel)
    assert found is not None
    assert [a.trips for a in found.tally.accesses if not a.store] == [parts]
    assert estimate(kernel, H200).bytes == (parts + 1) * n * 4


def event(**values: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": 1, **values}


def traced(tmp_path: Path, sizes: list[tuple[int, float]]) -> Path:
    """Launches of ``scale`` one after the other: (programs, microseconds)."""
    events: list[dict[str, Any]] = []
    for i, (programs, us) in enumerate(sizes):
        at = 100.0 + 1000 * i
        events += [
            event(cat="cuda_driver", name="cuLaunchKernelEx", ts=at, dur=5, args={"correlation": i + 1}),
            event(
                cat="kernel", name="scale", ts=at + 10, dur=us, tid=7, pid=0,
                args={"correlation": i + 1, "device": 0, "stream": 7, "grid": [programs, 1, 1], "block": [128, 1, 1]},
            ),
        ]  # fmt: skip
    document = {
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9, "computeMinor": 0}],
        "traceEvents": events,
    }
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    return path


def sidecar(recorded: list[list[int]], *calls: tuple[int, int]) -> Sidecar:
    """``scale`` with calls of (programs, columns)."""
    rows = [
        {
            "arguments": [
                {"name": "X", "size": [n, c], "stride": [c, 1], "dtype": "float32"},
                {"name": "cols", "value": c},
            ],
            "grid": [n],
            "options": {},
        }
        for n, c in calls
    ]
    return Sidecar(
        triton_calls=[TritonKernel(name="scale", file="/x.py", line=1, text=SCALE, calls=rows, recorded=recorded)]
    )


def columns(tmp_path: Path, notes: Sidecar, sizes: list[tuple[int, float]]) -> list[int | None]:
    trace = read_trace(traced(tmp_path, sizes))
    work = work_table(trace)
    found = direct_launches(trace, work, notes)
    launches = [found.of(row) for row in range(len(work.start))]
    return [one.arguments[1].value if one else None for one in launches]


def test_a_launch_finds_its_arguments_by_its_grid(tmp_path: Path) -> None:
    notes = sidecar([], (64, 100), (128, 200))
    assert columns(tmp_path, notes, [(128, 5.0), (64, 5.0), (32, 5.0)]) == [200, 100, None]


def test_launches_of_one_grid_are_told_apart_by_time(tmp_path: Path) -> None:
    at = 1_700_000_000_000_000_000
    recorded = [[at + 90_000, 0], [at + 1_095_000, 1], [at + 2_095_000, -1], [at + 3_095_000, 0]]
    notes = sidecar(recorded, (64, 100), (64, 200))
    assert columns(tmp_path, notes, [(64, 5.0), (64, 5.0), (64, 5.0), (64, 5.0)]) == [100, 200, None, 100]
    assert columns(tmp_path, sidecar([], (64, 100), (64, 200)), [(64, 5.0)]) == [None]  # nothing tells: not guessed


BLOCKS = """
import triton
import triton.language as tl

@triton.jit
def attend(Q, K, V, Out, stride_h, stride_m, N_CTX, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr):
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    q_ptr = tl.make_block_ptr(base=Q + head * stride_h, shape=(N_CTX, HEAD), strides=(stride_m, 1),
                              offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD), order=(1, 0))
    k_ptr = tl.make_block_ptr(base=K + head * stride_h, shape=(HEAD, N_CTX), strides=(1, stride_m),
                              offsets=(0, 0), block_shape=(HEAD, BLOCK_N), order=(0, 1))
    v_ptr = tl.make_block_ptr(base=V + head * stride_h, shape=(N_CTX, HEAD), strides=(stride_m, 1),
                              offsets=(0, 0), block_shape=(BLOCK_N, HEAD), order=(1, 0))
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    q = tl.load(q_ptr)
    for start_n in range(0, HIGH, BLOCK_N):
        k = tl.load(k_ptr)
        qk = tl.dot(q, k)
        qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, float("-inf"))
        p = tl.math.exp2(qk)
        v = tl.load(v_ptr)
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        k_ptr = tl.advance(k_ptr, (0, BLOCK_N))
        v_ptr = tl.advance(v_ptr, (BLOCK_N, 0))
    o_ptr = tl.make_block_ptr(base=Out + head * stride_h, shape=(N_CTX, HEAD), strides=(stride_m, 1),
                              offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD), order=(1, 0))
    tl.store(o_ptr, acc.to(tl.bfloat16))
"""


@pytest.mark.parametrize(("high", "part"), [("N_CTX", 1.0), ("(start_m + 1) * BLOCK_M", 0.5)])
def test_attention_by_block_pointers(high: str, part: float) -> None:
    """Bytes of four tensors, FLOPs of two products, half of them where each block of rows ends at its diagonal."""
    heads, rows, width = 64, 4096, 64
    kernel = launch(
        BLOCKS.replace("HIGH", high), "attend", rows // 128, 400.0,
        *(tensor(name, heads, rows, width, type="bfloat16") for name in ("Q", "K", "V", "Out")),
        value("stride_h", rows * width), value("stride_m", width), value("N_CTX", rows),
        value("BLOCK_M", 128), value("BLOCK_N", 64), value("HEAD", width),
    )  # fmt: skip
    kernel = replace(kernel, grid=(rows // 128, heads, 1), num_warps=4)
    found = estimate(kernel, H200)
    assert found.bytes == 4 * heads * rows * width * 2
    assert found.flops == pytest.approx(part * 2 * 2 * heads * rows * rows * width, rel=0.2)
    analysis = analyse(kernel)
    assert analysis is not None
    scores = [o for o in analysis.tally.operations if o.name in ("exp2", "where")]
    assert {analysis.layout.size(o.axes) for o in scores} == {128 * 64}  # the mask lies on the scores' own axes
    assert [d.in_registers for d in analysis.tally.dots] == [False, True]
    assert not analysis.tally.unknown


OWN = """
import torch
import triton
import triton.language as tl

@triton.jit
def poly(X, Y, n, BLOCK: tl.constexpr, TERMS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i, mask=i < n)
    y = x
    for _ in tl.static_range(TERMS):
        y = y * x + 0.5
    tl.store(Y + i, y, mask=i < n)

@triton.jit
def copy(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)

def run(x, n, block):
    y = torch.empty_like(x)
    poly[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024, TERMS=12)
    copy[(triton.cdiv(n, block),)](x, y, n, B=block)
"""


def foreign(symbol: str, text: str = OWN, us: float = 63.0, **more: Any) -> KernelInput:
    return KernelInput(
        name=symbol, symbol=symbol, category="user_triton", duration_us=us, count=1, grid=(32768, 1, 1), block=(128, 1, 1),
        kernel_source=text, **more,
    )  # fmt: skip


def test_without_arguments_the_launching_statement_and_the_output_tell_sizes() -> None:
    n = 32768 * 1024
    written_out = estimate(foreign("poly", allocated=(((n,), "float32"),)), H200)
    assert written_out.bytes == 2 * n * 4
    assert "inferred from its grid" in (written_out.reason or "") + " ".join(written_out.notes)
    half = estimate(foreign("copy", allocated=(((n - 77,), "bfloat16"),), us=33.0), H200)  # the block is computed
    assert (half.bytes, half.bound, half.borderline) == (2 * n * 2, "memory", False)


NORM = """
@triton.jit
def norm(X, Y, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(X + row * cols + c, mask=c < cols, other=0.0)
        total += x * x
    scale = tl.rsqrt(tl.sum(total, axis=0) / cols + eps)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(X + row * cols + c, mask=c < cols, other=0.0)
        tl.store(Y + row * cols + c, x * scale, mask=c < cols)

def run(x, y):
    norm[(x.shape[0],)](x, y, x.shape[1], 1e-5, BLOCK=1024)
"""


def test_a_loop_runs_up_to_a_side_of_the_output() -> None:
    made = foreign("norm", HEAD + NORM, us=130.0, allocated=(((32768, 2048), "float32"),))
    assert estimate(made, H200).bytes == 2 * 32768 * 2048 * 4
    assert estimate(replace(made, allocated=(((32768, 2048, 3), "float32"),)), H200).bound == "unknown"  # not filled


def test_what_cannot_be_inferred_stays_unknown() -> None:
    terms = OWN.replace("TERMS=12", "TERMS=block")
    assert estimate(foreign("poly", terms, allocated=(((1 << 25,), "float32"),)), H200).bound == "unknown"
    two = OWN + "\ndef other(x, y, n):\n    poly[(n,)](x, y, n, BLOCK=1024, TERMS=200)\n"
    assert estimate(foreign("poly", two), H200).bound == "unknown"  # two statements, which one launched is not known
    assert estimate(foreign("copy"), H200).borderline  # a block size that the time implies is a guess


@pytest.mark.parametrize(
    ("columns", "warps", "type", "compiled"),
    [(1024, 4, "float32", 181), (4096, 8, "float32", 293), (781, 4, "float32", 216), (4096, 8, "bfloat16", 305)],
)
def test_instructions_of_a_softmax_as_compiled(columns: int, warps: int, type: str, compiled: int) -> None:
    """A stride of 781 elements leaves no vectors; a maximum that need not keep NaN is one instruction."""
    kernel = launch(
        HEAD + SOFTMAX, "softmax", 8192, 50.0,
        tensor("out_ptr", 8192, columns, type=type), tensor("in_ptr", 8192, columns, type=type), value("in_stride", columns),
        value("out_stride", columns), value("n_cols", columns), value("BLOCK", 1 << (columns - 1).bit_length()),
    )  # fmt: skip
    found = analyse(replace(kernel, block=(32 * warps, 1, 1)))
    assert found is not None
    assert found.warp.issued == pytest.approx(compiled, rel=0.1)


@pytest.mark.parametrize(("n", "warps", "compiled", "accesses"), [(1 << 22, 8, 188, 3), ((1 << 22) - 5, 4, 402, 24)])
def test_a_mask_that_is_no_multiple_of_sixteen_leaves_no_vectors(
    n: int, warps: int, compiled: int, accesses: int
) -> None:
    pointers = [tensor(name, n) for name in ("x_ptr", "g_ptr", "o_ptr")]
    kernel = launch(HEAD + GELU, "gelu", 4096, 50.0, *pointers, value("n", n), value("BLOCK", 1024))
    found = analyse(replace(kernel, block=(32 * warps, 1, 1)))
    assert found is not None
    assert found.warp.issued == pytest.approx(compiled, rel=0.1)
    assert found.warp.load_store == accesses


@pytest.mark.parametrize(
    ("rows", "columns", "width", "warps", "compiled"),
    [(128, 64, 64, 4, 33271), (128, 64, 128, 8, 22864), (128, 128, 64, 8, 14940)],
)
def test_instructions_of_attention_as_compiled(rows: int, columns: int, width: int, warps: int, compiled: int) -> None:
    """Scores and sums lie as the matrix units leave them: a row in four lanes of one warp."""
    kernel = launch(
        HEAD + ATTEND, "attend", 32, 500.0,
        *(tensor(name, 64, 4096, width, type="bfloat16") for name in ("Q", "K", "V", "Out")), value("scale", 0.18),
        value("stride_h", 4096 * width), value("stride_m", width), value("N_CTX", 4096), value("BLOCK_M", rows),
        value("BLOCK_N", columns), value("HEAD", width),
    )  # fmt: skip
    found = analyse(replace(kernel, grid=(4096 // rows, 64, 1), block=(32 * warps, 1, 1)))
    assert found is not None
    assert found.warp.issued == pytest.approx(compiled, rel=0.3)
    assert found.warp.special == pytest.approx(4096 * rows / (32 * warps), rel=0.1)  # an exponential a score


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "warps", "act", "compiled"),
    [(128, 256, 64, 8, "leaky_relu", 8598), (64, 128, 32, 4, "", 11079), (128, 128, 64, 4, "", 9181)],
)
def test_instructions_and_bytes_of_a_product_as_compiled(
    rows: int, columns: int, depth: int, warps: int, act: str, compiled: int
) -> None:
    n = 4096
    kernel = launch(
        HEAD + MATMUL, "matmul", (n // rows) * (n // columns), 250.0,
        *(tensor(name, n, n, type="float16") for name in ("a_ptr", "b_ptr", "c_ptr")),
        *(value(name, n) for name in ("M", "N", "K")),
        *(value(name, stride) for name, stride in (("sam", n), ("sak", 1), ("sbk", n), ("sbn", 1), ("scm", n), ("scn", 1))),
        value("BM", rows), value("BN", columns), value("BK", depth), value("GROUP", 8), value("ACT", act),
    )  # fmt: skip
    kernel = replace(kernel, block=(32 * warps, 1, 1))
    found = analyse(kernel)
    assert found is not None
    assert found.warp.issued == pytest.approx(compiled, rel=0.25)
    judged = estimate(kernel, H200)
    assert (judged.flops, judged.bytes) == (pytest.approx(2 * n**3, rel=0.01), 3 * n * n * 2)
    assert judged.flop_type == "fp16"


DESCRIPTORS = """
@triton.jit
def tiles(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.bfloat16))
"""


def test_descriptors_made_on_the_host() -> None:
    """As the agent notes them: the tensor, and the tile that is loaded of it."""
    arguments = [
        replace(tensor(name, rows, columns, type="bfloat16"), block=block)
        for name, rows, columns, block in (
            ("a", 4096, 2048, (128, 64)), ("b", 8192, 2048, (256, 64)), ("c", 4096, 8192, (128, 256)),
        )
    ]  # fmt: skip
    constants = [value("K", 2048), value("BM", 128), value("BN", 256), value("BK", 64)]
    kernel = launch(HEAD + DESCRIPTORS, "tiles", 32, 250.0, *arguments, *constants)
    found = estimate(replace(kernel, grid=(32, 32, 1), block=(256, 1, 1)), H200)
    assert found.flops == 2 * 4096 * 8192 * 2048
    assert found.bytes == (4096 * 2048 + 8192 * 2048 + 4096 * 8192) * 2
