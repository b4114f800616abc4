"""Triton kernels in the manner of its tutorials, launched directly: vector addition, a softmax that walks over rows, layer
norm forward and backward with partial sums, a grouped matrix product tuned over two configurations, dropout from a seed,
row-wise quantisation to int8 and back, cumulative sums and a linear recurrence by an associative scan."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS, COLS, SIZE, COPIES = 8192, 2048, 4096, 96


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    mask = c < cols
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * cols + c, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * cols + c, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def norm_forward_kernel(x_ptr, w_ptr, b_ptr, out_ptr, mean_ptr, rstd_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / cols
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0).to(tl.float32)
        x = tl.where(c < cols, x - mean, 0.0)
        total += x * x
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / cols + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        mask = c < cols
        x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        w, b = tl.load(w_ptr + c, mask=mask), tl.load(b_ptr + c, mask=mask)
        tl.store(out_ptr + row * cols + c, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def norm_backward_kernel(
    g_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, rows, cols, BLOCK: tl.constexpr
):
    part = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    w = tl.load(w_ptr + c, mask=mask, other=0.0)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    db = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(part, rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(g_ptr + row * cols + c, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        wg = w * g
        dx = (wg - (hat * tl.sum(hat * wg, axis=0) + tl.sum(wg, axis=0)) / cols) * rstd
        tl.store(dx_ptr + row * cols + c, dx, mask=mask)
        dw += g * hat
        db += g
    tl.store(dw_ptr + part * cols + c, dw, mask=mask)
    tl.store(db_ptr + part * cols + c, db, mask=mask)


@triton.jit
def column_sums_kernel(x_ptr, out_ptr, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    total = tl.zeros((BR, BC), dtype=tl.float32)
    for start in range(0, rows, BR):
        r = start + tl.arange(0, BR)
        mask = (r[:, None] < rows) & (c[None, :] < cols)
        total += tl.load(x_ptr + r[:, None] * cols + c[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + c, tl.sum(total, axis=0), mask=c < cols)


@triton.autotune(
    configs=[
        triton.Config({"BM": 128, "BN": 256, "BK": 64, "GROUP": 8}, num_stages=3, num_warps=8),
        triton.Config({"BM": 64, "BN": 128, "BK": 32, "GROUP": 8}, num_stages=4, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    across, down = tl.cdiv(N, BN), tl.cdiv(M, BM)
    first = pid // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    m = (first + pid % (GROUP * across) % height) * BM + tl.arange(0, BM)
    n = pid % (GROUP * across) // height * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at = a_ptr + (m % M)[:, None] * K + k[None, :]
    b_at = b_ptr + k[:, None] * N + (n % N)[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_at, mask=k[None, :] < K - start, other=0.0)
        b = tl.load(b_at, mask=k[:, None] < K - start, other=0.0)
        total = tl.dot(a, b, total)
        a_at += BK
        b_at += BK * N
    total = tl.where(total >= 0, total, 0.01 * total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    tl.store(out_ptr + i, tl.where(tl.rand(seed, i) > p, x / (1 - p), 0.0), mask=mask)


@triton.jit
def quantise_kernel(x_ptr, out_ptr, scale_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    x = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0) / 127.0, 1e-8)
    q = x / scale
    q = tl.where(q >= 0, q + 0.5, q - 0.5).to(tl.int8)
    tl.store(out_ptr + row * cols + c, q, mask=mask)
    tl.store(scale_ptr + row, scale)


@triton.jit
def dequantise_kernel(q_ptr, scale_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + row * cols + c, mask=c < cols)
    tl.store(out_ptr + row * cols + c, (q.to(tl.float32) * tl.load(scale_ptr + row)).to(tl.float16), mask=c < cols)


@triton.jit
def cumulative_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=0.0)
    tl.store(out_ptr + row * cols + c, tl.cumsum(x, axis=0), mask=c < cols)


@triton.jit
def follow(a1, x1, a2, x2):
    return a1 * a2, x1 * a2 + x2


@triton.jit
def recurrence_kernel(a_ptr, x_ptr, out_ptr, length, cols, BT: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    t = tl.arange(0, BT)
    carry = tl.zeros((BC,), dtype=tl.float32)
    for start in range(0, length, BT):
        at = (start + t)[:, None] * cols + c[None, :]
        decay, state = tl.associative_scan((tl.load(a_ptr + at), tl.load(x_ptr + at)), 0, follow)
        state += decay * carry[None, :]
        tl.store(out_ptr + at, state)
        carry = tl.sum(tl.where(t[:, None] == BT - 1, state, 0.0), axis=0)


def run(data: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    x, g, w, b = data["x"], data["g"], data["w"], data["b"]
    rows, cols = x.shape
    n, block = x.numel(), triton.next_power_of_2(cols)
    flat = (triton.cdiv(n, 1024),)
    made = {name: torch.empty_like(x) for name in ("sum", "softmax", "norm", "dx", "dropout", "cumsum", "recurrence")}
    made.update({name: x.new_empty(rows) for name in ("mean", "rstd", "scale")})
    made.update({name: x.new_empty(COPIES, cols) for name in ("parts_w", "parts_b")})
    made.update(dw=torch.empty_like(w), db=torch.empty_like(b))
    made.update(quantised=torch.empty_like(x, dtype=torch.int8), back=torch.empty_like(x, dtype=torch.float16))
    add_kernel[flat](x, g, made["sum"], n, BLOCK=1024)
    softmax_kernel[(min(rows, 528),)](x, made["softmax"], rows, cols, BLOCK=block, num_warps=8)
    norm_forward_kernel[(rows,)](x, w, b, made["norm"], made["mean"], made["rstd"], cols, 1e-5, BLOCK=1024)
    norm_backward_kernel[(COPIES,)](
        g,
        x,
        w,
        made["mean"],
        made["rstd"],
        made["dx"],
        made["parts_w"],
        made["parts_b"],
        rows,
        cols,
        BLOCK=block,
        num_warps=8,
    )
    for parts, out in (("parts_w", "dw"), ("parts_b", "db")):
        column_sums_kernel[(triton.cdiv(cols, 128),)](made[parts], made[out], COPIES, cols, BR=32, BC=128)
    dropout_kernel[flat](x, made["dropout"], n, 0.3, 123, BLOCK=1024)
    quantise_kernel[(rows,)](x, made["quantised"], made["scale"], cols, BLOCK=block)
    dequantise_kernel[(rows, triton.cdiv(cols, 1024))](made["quantised"], made["scale"], made["back"], cols, BLOCK=1024)
    cumulative_kernel[(rows,)](x, made["cumsum"], cols, BLOCK=block)
    recurrence_kernel[(cols // 16,)](data["decay"], x, made["recurrence"], rows, cols, BT=64, BC=16)
    size = data["left"].shape[0]
    made["product"] = torch.empty_like(data["left"])
    matmul_kernel[lambda meta: (triton.cdiv(size, meta["BM"]) * triton.cdiv(size, meta["BN"]),)](
        data["left"], data["right"], made["product"], size, size, size
    )
    return made


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    data = {name: torch.randn(ROWS, COLS, device="cuda") for name in ("x", "g")}
    data.update({name: torch.randn(COLS, device="cuda") for name in ("w", "b")})
    data["decay"] = torch.rand(ROWS, COLS, device="cuda")
    data.update({name: torch.randn(SIZE, SIZE, device="cuda").half() for name in ("left", "right")})

    def step() -> None:
        run(data)

    return step
