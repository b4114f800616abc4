"""Linear layers with quantised weights, compiled, bfloat16 activations: int8 rows with a scale each, int4 pairs packed in
a byte with a scale and a zero a group of 128, fp8 tiles with scales, for a batch of prompts and for a few tokens; and the
quantisation of activations row by row for an int8 product."""

from __future__ import annotations

import torch
import torch.nn.functional as F

WIDTH, HIDDEN, GROUP, TILE = 4096, 8192, 128, 128
PROMPT, FEW = 2048, 4


def int8_linear(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return F.linear(x, w.to(x.dtype)) * scale


def int4_linear(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    w = torch.stack((packed & 15, packed >> 4), -1).view(packed.shape[0], -1, GROUP).to(x.dtype)
    return F.linear(x, ((w - zero[..., None]) * scale[..., None]).flatten(1))


def fp8_linear(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    tiles = w.to(x.dtype).view(w.shape[0] // TILE, TILE, w.shape[1] // TILE, TILE)
    return F.linear(x, (tiles * scale[:, None, :, None]).view(w.shape))


def dynamic_linear(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    own = (x.abs().amax(-1, keepdim=True).float() / 127.0).clamp(min=1e-8)
    q = (x.float() / own).round().clamp(-127, 127).to(torch.int8)
    return (torch._int_mm(q, w.t()).float() * own * scale).to(x.dtype)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    up8 = torch.randint(-127, 128, (HIDDEN, WIDTH), device="cuda", dtype=torch.int8)
    rows = torch.rand(HIDDEN, device="cuda") * 1e-3
    packed = torch.randint(0, 256, (HIDDEN, WIDTH // 2), device="cuda", dtype=torch.uint8)
    scale4 = (torch.rand(HIDDEN, WIDTH // GROUP, device="cuda") * 1e-2).bfloat16()
    zero4 = torch.randint(6, 10, scale4.shape, device="cuda").bfloat16()
    down = (torch.randn(WIDTH, HIDDEN, device="cuda") * 8).to(torch.float8_e4m3fn)
    tiles = (torch.rand(WIDTH // TILE, HIDDEN // TILE, device="cuda") * 1e-2).bfloat16()
    few, prompt = (torch.randn(n, WIDTH, device="cuda").bfloat16() for n in (FEW, PROMPT))

    @torch.compile(dynamic=False)
    def weight_only(x: torch.Tensor) -> torch.Tensor:
        gate, up = int8_linear(x, up8, rows.bfloat16()), int4_linear(x, packed, scale4, zero4)
        return x + fp8_linear(F.silu(gate) * up, down, tiles)

    @torch.compile(dynamic=False)
    def dynamic(x: torch.Tensor) -> torch.Tensor:
        return F.gelu(dynamic_linear(F.rms_norm(x, (WIDTH,)), up8, rows))

    def step() -> None:
        with torch.no_grad():
            weight_only(few)
            weight_only(prompt)
            dynamic(prompt)

    return step
