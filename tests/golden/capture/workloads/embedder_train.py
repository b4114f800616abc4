"""A contrastive training step of a text embedder, compiled, bfloat16 weights: padded queries and passages through one
encoder (rotary positions, GeGLU, no biases), mean pooling over the words, normalised, each query against every passage
of the batch in both directions, AdamW with clipped gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WORDS, WIDTH, HEADS, HIDDEN, PAIRS, LENGTH, LAYERS = 30_528, 768, 12, 1152, 96, 192, 1


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, attn_mask=mask)
        x = x + self.out(h.transpose(1, 2).reshape(b, s, WIDTH))
        value, gate = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.dropout(F.gelu(value) * gate, 0.1))


class Embedder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.first = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.LayerNorm(WIDTH, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        real = ids != 0
        mask = torch.zeros(real.shape, device=ids.device, dtype=torch.bfloat16).masked_fill(~real, float("-inf"))
        mask = mask[:, None, None].expand(-1, HEADS, ids.shape[1], -1)
        rate = 10_000.0 ** (-torch.arange(0, WIDTH // HEADS, 2, device=ids.device).float() * HEADS / WIDTH)
        angle = torch.arange(ids.shape[1], device=ids.device).float()[:, None] * rate
        cos, sin = angle.cos(), angle.sin()
        x = self.first(self.words(ids))
        for layer in self.layers:
            x = layer(x, mask, cos, sin)
        keep = real[..., None].float()
        return F.normalize((self.last(x).float() * keep).sum(1) / keep.sum(1), dim=-1)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Embedder().cuda().bfloat16()
    temperature = nn.Parameter(torch.tensor(3.0, device="cuda"))
    parameters = [*model.parameters(), temperature]
    optimizer = torch.optim.AdamW(parameters, lr=2e-5, fused=True)
    ids = torch.randint(1, WORDS, (2 * PAIRS, LENGTH), device="cuda")
    length = torch.randint(LENGTH // 4, LENGTH + 1, (2 * PAIRS, 1), device="cuda")
    ids = ids * (torch.arange(LENGTH, device="cuda") < length)
    answer = torch.arange(PAIRS, device="cuda")

    @torch.compile
    def loss(ids: torch.Tensor) -> torch.Tensor:
        query, passage = model(ids).chunk(2)
        score = query @ passage.t() * temperature.exp()
        return (F.cross_entropy(score, answer) + F.cross_entropy(score.t(), answer)) / 2

    def step() -> None:
        loss(ids).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
