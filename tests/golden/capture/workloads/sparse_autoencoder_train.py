"""A training step of a top-k sparse autoencoder over a language model's activations, compiled, bfloat16 autocast: the
largest codes kept, a second reconstruction of what is left from codes long unused, counts of use kept, the decoder's
gradient made orthogonal to its rows and the rows unit length, gradients clipped, Adam."""

from __future__ import annotations

import torch
from torch import nn

INPUT, CODES, BATCH, KEEP, SPARE, IDLE = 1024, 16_384, 2048, 32, 128, 40


class SparseAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rows = torch.randn(CODES, INPUT)
        rows = rows / rows.norm(dim=1, keepdim=True)
        self.decode, self.encode = nn.Parameter(rows.clone()), nn.Parameter(rows.t().clone())
        dead = torch.arange(CODES) % 3 == 0
        self.centre, self.bias = nn.Parameter(torch.zeros(INPUT)), nn.Parameter(-0.1 * dead.float())
        self.register_buffer("unused", 100 * dead.float())

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x - x.mean(1, keepdim=True)
        x = x / x.norm(dim=1, keepdim=True)
        score = (x - self.centre) @ self.encode + self.bias
        value, index = score.topk(KEEP, 1)
        code = torch.zeros_like(score).scatter(1, index, value.relu())
        back = code @ self.decode + self.centre
        error = x - back
        loss = error.pow(2).sum(1).mean() / (x - x.mean(0)).pow(2).sum(1).mean()

        fired = (code.detach() > 0).any(0)
        self.unused.copy_(torch.where(fired, torch.zeros_like(self.unused), self.unused + 1))
        idle = self.unused > IDLE
        value, index = torch.where(idle, score, -1e9).topk(SPARE, 1)
        code = torch.zeros_like(score).scatter(1, index, value.relu())
        left = error.detach()
        spare = (code @ self.decode - left).pow(2).sum(1).mean() / left.pow(2).sum(1).mean()
        return loss + spare / 32, fired.float().mean()


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = SparseAutoencoder().cuda()
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.999), fused=True)
    activations = torch.randn(8, BATCH, INPUT, device="cuda")
    compiled = torch.compile(model)
    seen = 0

    @torch.compile
    def orthogonal(gradient: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return gradient - (gradient * rows).sum(1, keepdim=True) * rows

    @torch.compile
    def unit(rows: torch.Tensor) -> torch.Tensor:
        return rows / rows.norm(dim=1, keepdim=True)

    def step() -> None:
        nonlocal seen
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss, _ = compiled(activations[seen % 8])
        seen += 1
        loss.backward()
        with torch.no_grad():
            model.decode.grad.copy_(orthogonal(model.decode.grad, model.decode))
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            model.decode.copy_(unit(model.decode))

    return step
