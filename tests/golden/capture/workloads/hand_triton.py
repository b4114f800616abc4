"""Hand-written Triton kernels launched directly and under torch.compile: fused norm, products with tl.dot, column sums,
a transposing copy, and a masked histogram with atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n
    w = tl.load(w_ptr + cols, mask=mask).to(tl.float32)
    tl.store(y_ptr + row * stride + cols, centred * tl.rsqrt(variance + eps) * w, mask=mask)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * sa + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * sb + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * sc + n[None, :], total.to(tl.bfloat16))


@triton.jit
def transpose_kernel(x_ptr, y_ptr, rows, cols, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + r[:, None] * cols + c[None, :])
    tl.store(y_ptr + c[None, :] * rows + r[:, None], x)


@triton.jit
def polynomial_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, TERMS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = x
    for _ in tl.static_range(TERMS):
        y = y * x + 0.5
    tl.store(y_ptr + i, y, mask=i < n)


@triton.jit
def count_kernel(i_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(i_ptr + offset, mask=offset < n, other=0)
    tl.atomic_add(out_ptr + value, 1, mask=offset < n)


def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    norm_kernel[(x.shape[0],)](x, w, y, x.stride(0), x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device, dtype=a.dtype)
    product_kernel[(m // 128, n // 128)](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), BM=128, BN=128, BK=64, num_warps=8, num_stages=3
    )
    return c


def transpose(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape[1], x.shape[0], device=x.device, dtype=x.dtype)
    transpose_kernel[(x.shape[0] // 64, x.shape[1] // 64)](x, y, x.shape[0], x.shape[1], B=64)
    return y


def polynomial(x: torch.Tensor, terms: int) -> torch.Tensor:
    y = torch.empty_like(x)
    polynomial_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024, TERMS=terms)
    return y


def count(i: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(1024, device=i.device, dtype=torch.int32)
    count_kernel[(triton.cdiv(i.numel(), 1024),)](i, out, i.numel(), BLOCK=1024)
    return out


def everything(x, w, a, b, i):  # type: ignore[no-untyped-def]
    return norm(x, w), product(a, b), transpose(x), polynomial(x, 4), polynomial(x, 200), count(i) + 1, x * 2


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    x, w = torch.randn(16384, 2048, device="cuda"), torch.randn(2048, device="cuda")
    a, b = torch.randn(4096, 4096, device="cuda").bfloat16(), torch.randn(4096, 4096, device="cuda").bfloat16()
    i = torch.randint(0, 1024, (1 << 22,), device="cuda")
    compiled = torch.compile(everything)

    def step() -> None:
        with torch.no_grad():
            everything(x, w, a, b, i)
            compiled(x, w, a, b, i)

    return step
