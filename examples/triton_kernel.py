"""A hand-written Triton kernel: RMSNorm with its weight, one row a program. Needs an NVIDIA GPU; says so elsewhere."""

from __future__ import annotations

import argparse
import sys

import torch
from torch.nn import functional as F

if not torch.cuda.is_available():
    print("triton_kernel.py needs an NVIDIA GPU (and Triton, which comes with torch for CUDA): nothing to run here.")
    sys.exit(0)

import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(out, x, weight, stride, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < width
    values = tl.load(x + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / width + eps)
    weights = tl.load(weight + columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + row * stride + columns, (values * scale * weights).to(out.dtype.element_ty), mask=mask)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """RMSNorm over the last dimension of a contiguous tensor of rows × width."""
    rows, width = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(width)
    rms_norm_kernel[(rows,)](out, x, weight, x.stride(0), width, eps, BLOCK=block, num_warps=8 if block >= 2048 else 4)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(16_384, 4096, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
    projection = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64
    torch.testing.assert_close(rms_norm(x, weight), F.rms_norm(x, (4096,), weight, 1e-6), rtol=2e-2, atol=2e-2)
    for _ in range(options.steps):
        x = rms_norm(x, weight)
        x = torch.mm(x, projection)
    torch.cuda.synchronize()
    print(f"{options.steps} steps, mean {x.float().abs().mean().item():.3f}")


if __name__ == "__main__":
    main()
