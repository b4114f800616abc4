"""An encoder with padded batches, eager and compiled, half precision: masked softmax written out, GELU, layer norms,
embedding sums, a pooled classifier, int8 and fp8 products beside it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS = 1024, 16


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        score = (q @ k.transpose(-2, -1) / 8.0).masked_fill(mask, float("-inf")).softmax(-1)
        x = self.n1(x + self.out((score @ v).transpose(1, 2).reshape(b, s, WIDTH)))
        return self.n2(x + self.down(F.gelu(self.up(x))))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    words, places = (nn.Embedding(n, WIDTH).cuda().half() for n in (30000, 512))
    layers = nn.ModuleList(Layer() for _ in range(2)).cuda().half().eval()
    ids = torch.randint(0, 30000, (32, 256), device="cuda")
    mask = (torch.arange(256, device="cuda")[None] >= torch.randint(40, 256, (32, 1), device="cuda"))[:, None, None]
    i8 = torch.randint(-100, 100, (4096, 4096), device="cuda", dtype=torch.int8)
    f8, one = torch.randn(4096, 4096, device="cuda").to(torch.float8_e4m3fn), torch.ones((), device="cuda")

    def encode(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = words(ids) + places(torch.arange(256, device=ids.device))
        for layer in layers:
            x = layer(x, mask)
        return torch.tanh(x[:, 0]).float().argmax(-1)

    compiled = torch.compile(encode)

    def step() -> None:
        with torch.no_grad():
            encode(ids, mask)
            compiled(ids, mask)
            torch._int_mm(i8, i8)
            torch._scaled_mm(f8, f8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return step
