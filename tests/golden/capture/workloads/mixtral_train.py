"""A decoder layer with a mixture of experts, compiled, trained in bfloat16: grouped-query attention, a router that picks two
of eight experts, tokens ordered by a sort, experts of fixed capacity as batched products, results added back by index, a
loss that balances the experts, clipped gradients, fused AdamW."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS, GROUPS = 4, 1024, 32000, 1024, 16, 4
EXPERTS, CHOSEN, HIDDEN = 8, 2, 3584
CAPACITY = BATCH * LENGTH * CHOSEN // EXPERTS * 5 // 4


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.w1, self.w3 = (nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) * 0.02) for _ in range(2))
        self.w2 = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * 0.02)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        share = self.router(x).float().softmax(-1)
        weight, chosen = share.topk(CHOSEN, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        load = F.one_hot(chosen, EXPERTS).float().mean((0, 1))
        expert, order = chosen.flatten().sort(stable=True)
        first = torch.searchsorted(expert, torch.arange(EXPERTS, device=x.device))
        place = torch.arange(expert.numel(), device=x.device) - first[expert]
        kept = place < CAPACITY
        token = order // CHOSEN
        # What exceeds its expert's capacity goes to a last row that no expert reads.
        slot = torch.where(kept, expert * CAPACITY + place, EXPERTS * CAPACITY)
        rows = x.new_zeros(EXPERTS * CAPACITY + 1, WIDTH).index_copy(0, slot, x[token])
        rows = rows[:-1].view(EXPERTS, CAPACITY, WIDTH)
        done = torch.bmm(F.silu(torch.bmm(rows, self.w1)) * torch.bmm(rows, self.w3), self.w2).flatten(0, 1)
        back = done[slot.clamp(max=EXPERTS * CAPACITY - 1)] * (kept * weight.flatten()[order]).to(x.dtype)[:, None]
        return torch.zeros_like(x).index_add(0, token, back), EXPERTS * (load * share.mean(0)).sum()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        d = WIDTH // HEADS
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.n1, self.n2, self.n3 = (nn.RMSNorm(WIDTH) for _ in range(3))
        self.q, self.o = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = nn.Linear(WIDTH, GROUPS * d, bias=False), nn.Linear(WIDTH, GROUPS * d, bias=False)
        self.experts, self.head = Experts(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        d = WIDTH // HEADS
        rate = 1e6 ** -torch.linspace(0, 1, d // 2, device=ids.device)
        angle = torch.arange(ids.shape[1], device=ids.device)[:, None] * rate
        cos, sin = (t.repeat(1, 2).to(torch.bfloat16) for t in (angle.cos(), angle.sin()))

        def rotate(t: torch.Tensor) -> torch.Tensor:
            return t * cos + torch.cat((-t[..., d // 2 :], t[..., : d // 2]), -1) * sin

        x = self.embed(ids)
        h = self.n1(x)
        q, k, v = (p(h).unflatten(-1, (-1, d)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y, balance = self.experts(self.n2(x).flatten(0, 1))
        logits = self.head(self.n3(x + y.view_as(x))).flatten(0, 1)
        return F.cross_entropy(logits.float(), target.flatten()) + 0.02 * balance


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    model = Model().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_of = torch.compile(model)
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda")
    target = ids.roll(-1, 1)

    def step() -> None:
        loss_of(ids, target).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
