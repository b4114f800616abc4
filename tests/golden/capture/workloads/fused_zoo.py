"""Compiled functions that Inductor turns into one or two Triton kernels each, over types, shapes and layouts."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

FUNCTIONS: list[Callable[..., object]] = []


def fused(function: Callable[..., object]) -> Callable[..., object]:
    FUNCTIONS.append(torch.compile(function))
    return function


@fused
def cast_permute(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x.view(64, 64, 64, -1).permute(2, 0, 3, 1).contiguous().bfloat16()


@fused
def transpose_add(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return (x.t() + y.t().exp()).contiguous()


@fused
def gelu_tanh(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.gelu(h, approximate="tanh") * torch.sigmoid(h)


@fused
def gelu_erf(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.gelu(h) + F.softplus(h)


@fused
def trig(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x.sin() * y.cos() + (x.abs() + 1).log() * (y.abs() + 1).pow(1.7)


@fused
def double(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return (x[:8192].double() * y[:8192].double() + 1.0).sqrt().float()


@fused
def integer(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return (i * 2654435761 % 1009) // 7 + (i >> 3)


@fused
def layer_norm(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.layer_norm(h.float() + x, (x.shape[1],)).bfloat16()


@fused
def rms_norm_wide(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.rms_norm(h.view(2048, -1), (h.numel() // 2048,))


@fused
def softmax_dim0(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x.softmax(0)


@fused
def softmax_small(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return h.view(-1, 32).softmax(-1)


@fused
def log_softmax_wide(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return h.view(512, -1).float().log_softmax(-1)


@fused
def group_norm(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.silu(F.group_norm(im, 8))


@fused
def batch_norm(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.relu(F.batch_norm(im.bfloat16(), None, None, training=True))


@fused
def pools(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.max_pool2d(im, 3, 2), F.avg_pool2d(im, 5, 3)


@fused
def upsample(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.interpolate(im[:8], scale_factor=2.0, mode="bicubic")


@fused
def dropout(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.dropout(h, 0.2, True) + h


@fused
def scan(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x.cumsum(-1)


@fused
def gather(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x[i[:32768]] * y[:1]


@fused
def scatter(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return torch.zeros_like(x).index_add(0, i[:16384], x)


@fused
def concat_slice(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return torch.cat((x[:, 128:], y[:, :128] * 2, h.float()), 1)


@fused
def column_sums(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return h.sum(0), (x * y).sum(0)


@fused
def argmax_var(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x.argmax(1), y.var(1)


@fused
def whole_sum(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return (x - y).pow(2).mean()


@fused
def pad_roll(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.pad(im, (1, 2, 3, 4)), h.roll(17, 1)


@fused
def broadcast_outer(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x[:4096, 0][:, None] * y[:8192, 1][None, :]


@fused
def small_ops(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return x[:64] + 1, y[:8].sum(), h[:512, :256].float().softmax(-1)


@fused
def silu_mul_bf16(x, y, h, i, im):  # type: ignore[no-untyped-def]
    return F.silu(h[:, : h.shape[1] // 2]) * h[:, h.shape[1] // 2 :]


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch._dynamo.config.cache_size_limit = 64
    x, y = torch.randn(16384, 1024, device="cuda"), torch.randn(16384, 1024, device="cuda")
    h = torch.randn(16384, 1024, device="cuda").bfloat16()
    i = torch.randint(0, 16384, (4194304,), device="cuda")
    im = torch.randn(32, 64, 96, 96, device="cuda")

    def step() -> None:
        with torch.no_grad():
            for function in FUNCTIONS:
                function(x, y, h, i, im)

    return step
