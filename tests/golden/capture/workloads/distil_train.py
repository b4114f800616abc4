"""A small language model taught by a larger one, compiled, bfloat16: the teacher under no_grad, divergence of the two
distributions over 32,000 words at a temperature, cross entropy, a z-loss on the student's normaliser, fused AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WORDS, TEACHER, STUDENT, HEAD = 4, 1024, 32000, 2048, 768, 64
TEMPERATURE, PULL, Z_WEIGHT = 2.0, 0.7, 1e-4


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, -1, HEAD).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, -1))
        return x + self.down(F.relu(self.up(self.n2(x))).square())


class Model(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.layers, self.norm = nn.ModuleList(Layer(width) for _ in range(layers)), nn.RMSNorm(width)
        self.head = nn.Linear(width, WORDS, bias=False)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        x = self.words(token) + self.places.weight[: token.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits.flatten(0, 1)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    teacher = Model(TEACHER, 2).cuda().bfloat16().requires_grad_(False)
    student = Model(STUDENT, 2).cuda().bfloat16()
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-4, fused=True)
    token = torch.randint(0, WORDS, (BATCH, LENGTH), device="cuda")
    target = token.roll(-1, 1).flatten()

    @torch.compile
    def loss(token: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = F.log_softmax(teacher(token).float() / TEMPERATURE, -1)
        logits = student(token).float()
        made = F.log_softmax(logits / TEMPERATURE, -1)
        divergence = F.kl_div(made, wanted, reduction="batchmean", log_target=True) * TEMPERATURE**2
        z = logits.logsumexp(-1).square().mean()
        return PULL * divergence + (1 - PULL) * F.cross_entropy(logits, target) + Z_WEIGHT * z

    def step() -> None:
        loss(token, target).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
