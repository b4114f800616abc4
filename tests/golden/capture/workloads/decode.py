"""Token-by-token decoding against a key-value cache, batch of four, half precision: eager and compiled."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LENGTH, BATCH = 4096, 32, 2048, 4


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out, self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 11008), nn.Linear(11008, WIDTH)
        shape = (BATCH, HEADS, LENGTH, WIDTH // HEADS)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(BATCH, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(BATCH, 1, WIDTH))
        return x + self.down(F.silu(self.up(self.norm(x))))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    layers = nn.ModuleList(Layer() for _ in range(2)).cuda().half().eval()
    head = nn.Linear(WIDTH, 32000, bias=False).cuda().half()
    position = torch.tensor([1500], device="cuda")
    mask = (torch.arange(LENGTH, device="cuda") <= 1500)[None, None, None]
    x = torch.randn(BATCH, 1, WIDTH, device="cuda", dtype=torch.half)

    def token(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x, position, mask)
        return head(x).softmax(-1).argmax(-1)

    compiled = torch.compile(token)

    def step() -> None:
        with torch.no_grad():
            token(x)
            compiled(x)

    return step
