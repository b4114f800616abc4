"""A pair of towers in the manner of CLIP, compiled, bfloat16 autocast: image patches and causal text, quick GELU, the last
token gathered by argmax, normalised embeddings, a learnt temperature, cross entropy both ways, fused AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, PATCH, WIDTH, HEADS = 512, 224, 32, 768, 12
WORDS, VOCABULARY, TEXT_WIDTH, TEXT_HEADS, SHARED = 77, 49408, 512, 8, 512
PATCHES = (SIZE // PATCH) ** 2


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.n1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        h = self.up(self.n2(x))
        return x + self.down(h * torch.sigmoid(1.702 * h))


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.first = nn.Parameter(torch.randn(WIDTH) * 0.02)
        self.place = nn.Parameter(torch.randn(PATCHES + 1, WIDTH) * 0.02)
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.sees, self.reads = Layer(WIDTH, HEADS, False), Layer(TEXT_WIDTH, TEXT_HEADS, True)
        self.words = nn.Embedding(VOCABULARY, TEXT_WIDTH)
        self.order = nn.Parameter(torch.randn(WORDS, TEXT_WIDTH) * 0.01)
        self.last = nn.LayerNorm(TEXT_WIDTH)
        self.image_out = nn.Linear(WIDTH, SHARED, bias=False)
        self.text_out = nn.Linear(TEXT_WIDTH, SHARED, bias=False)
        self.temperature = nn.Parameter(torch.tensor(2.66))

    def forward(self, image: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.to(x.dtype).expand(x.shape[0], 1, -1), x), 1) + self.place
        a = self.image_out(self.after(self.sees(self.before(x))[:, 0]))
        y = self.last(self.reads(self.words(ids) + self.order))
        b = self.text_out(y[torch.arange(ids.shape[0], device=ids.device), ids.argmax(-1)])
        a, b = F.normalize(a.float(), dim=-1), F.normalize(b.float(), dim=-1)
        score = self.temperature.exp() * (a @ b.t())
        own = torch.arange(score.shape[0], device=score.device)
        return (F.cross_entropy(score, own) + F.cross_entropy(score.t(), own)) / 2


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Towers().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), weight_decay=0.2, fused=True)
    loss_of = torch.compile(model)
    image = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda")
    ids = torch.randint(1, VOCABULARY - 1, (BATCH, WORDS), device="cuda")
    ids.scatter_(1, torch.randint(8, WORDS, (BATCH, 1), device="cuda"), VOCABULARY - 1)

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = loss_of(image, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            model.temperature.clamp_(0, 4.6052)

    return step
