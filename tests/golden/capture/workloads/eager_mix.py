"""Eager operators in several types: products in fp32, tf32, fp16 and fp64, copies, permutes, gathers, scatters, norms,
softmax, dropout, sorts, sums along either axis, foreach optimizers on half-precision lists."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    dev = "cuda"
    a32, b32 = torch.randn(2048, 2048, device=dev), torch.randn(2048, 2048, device=dev)
    a16, b16 = torch.randn(16, 1024, 512, device=dev).half(), torch.randn(16, 512, 1024, device=dev).half()
    a64 = torch.randn(1024, 1024, device=dev, dtype=torch.float64)
    thin = torch.randn(8, 8192, device=dev).bfloat16()
    wide = torch.randn(8192, 8192, device=dev).bfloat16()
    image = torch.randn(32, 64, 112, 112, device=dev)
    kernel = torch.randn(64, 64, 3, 3, device=dev)
    rows = torch.randn(65536, 512, device=dev)
    index = torch.randint(0, 65536, (100000,), device=dev)
    small = torch.randn(64, 256, device=dev)
    q, k, v = (torch.randn(8, 16, 1024, 64, device=dev).half() for _ in range(3))
    bias = torch.randn(8, 16, 1024, 1024, device=dev).half()
    many = [torch.randn(s, device=dev).bfloat16() for s in ((4096, 2048), (2048, 2048), (2048,), (16384, 1024), (64,))]
    grads = [torch.randn_like(p) for p in many]

    def step() -> None:
        with torch.no_grad():
            torch.backends.cuda.matmul.allow_tf32 = False
            a32 @ b32
            torch.backends.cuda.matmul.allow_tf32 = True
            a32 @ b32
            torch.bmm(a16, b16)
            torch.bmm(a16, a16.transpose(1, 2))
            a64 @ a64
            thin @ wide
            thin[:1] @ wide.T
            wide @ wide
            F.conv2d(image, kernel, padding=1)
            F.conv2d(image.half(), kernel.half(), stride=2)
            F.max_pool2d(image, 2)
            F.batch_norm(image, None, None, training=True)
            F.layer_norm(rows, (512,))
            F.softmax(rows, -1)
            rows.bfloat16().softmax(0)
            F.dropout(rows, 0.1)
            F.gelu(rows)
            rows.bfloat16().tanh_()
            rows.sum(0)
            rows.sum(1)
            rows.max(1)
            rows.cumsum(1)
            rows[index]
            rows.index_select(0, index[:1000])
            torch.zeros_like(rows).index_add_(0, index[:65536], rows)
            rows.t().contiguous()
            rows.view(256, 256, 512).permute(1, 0, 2).contiguous()
            torch.cat((rows, rows * 2), 1)
            rows[:, ::2] + 1
            rows + small.mean()
            (rows > 0).sum()
            torch.where(rows > 0, rows, rows.exp())
            rows.double().sin()
            small.sort(1)
            small @ small.t()
            small.add_(0)
            index.float().long()
            rows.clone()
            rows.std(1)
            F.scaled_dot_product_attention(q, k, v)
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            torch._foreach_mul_(many, 0.999)
            torch._foreach_addcmul_(many, grads, grads, 1e-6)
            torch._foreach_norm(grads)
            torch._foreach_copy_([m.float() for m in many], many)
            torch._foreach_lerp_(many, grads, 1e-6)

    return step
