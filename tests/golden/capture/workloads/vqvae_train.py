"""An autoencoder with a codebook, compiled, trained in float32 with TF32 products: strided and transposed convolutions
with residual blocks, the nearest of 1,024 codes by distance, straight-through gradients, the codebook as moving sums of
what chose each code, squared error and commitment, fused Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIDE, WIDTH, CODES, CODE = 64, 128, 128, 1024, 64
DECAY, COMMITMENT = 0.99, 0.25


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, WIDTH)
        self.first, self.second = nn.Conv2d(WIDTH, WIDTH // 2, 3, padding=1), nn.Conv2d(WIDTH // 2, WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(F.relu(self.first(F.relu(self.norm(x)))))


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shrink, self.code = nn.Conv2d(3, WIDTH, 4, 4), nn.Conv2d(WIDTH, CODE, 1)
        self.narrow, self.inner, self.outer = nn.Conv2d(WIDTH, WIDTH, 4, 2, 1), Residual(), Residual()
        self.front = nn.Conv2d(CODE, WIDTH, 3, padding=1)
        self.grow, self.back = nn.ConvTranspose2d(WIDTH, WIDTH // 2, 4, 2, 1), nn.ConvTranspose2d(WIDTH // 2, 3, 4, 4)

    def encode(self, image: torch.Tensor) -> torch.Tensor:
        return self.code(self.inner(self.narrow(F.relu(self.shrink(image)))))

    def decode(self, code: torch.Tensor) -> torch.Tensor:
        return self.back(F.relu(self.grow(self.outer(self.front(code)))))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    model = Autoencoder().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, fused=True)
    book = torch.randn(CODES, CODE, device="cuda")
    uses, sums = torch.ones(CODES, device="cuda"), book.clone()
    image = torch.rand(BATCH, 3, SIDE, SIDE, device="cuda")

    @torch.compile
    def loss(image: torch.Tensor, book: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        latent = model.encode(image)
        rows = latent.permute(0, 2, 3, 1).flatten(0, 2)
        with torch.no_grad():
            distance = rows.square().sum(1, keepdim=True) - 2 * rows @ book.T + book.square().sum(1)
            chosen = distance.argmin(1)
            code = book[chosen].view(latent.shape[0], latent.shape[2], latent.shape[3], CODE).permute(0, 3, 1, 2)
        made = model.decode(latent + (code - latent).detach())
        return F.mse_loss(made, image) + COMMITMENT * F.mse_loss(latent, code), rows.detach(), chosen

    @torch.compile
    def learn(rows: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        uses.lerp_(torch.zeros_like(uses).index_add(0, chosen, torch.ones_like(rows[:, 0])), 1 - DECAY)
        sums.lerp_(torch.zeros_like(sums).index_add(0, chosen, rows), 1 - DECAY)
        share = (uses + 1e-5) / (uses.sum() + CODES * 1e-5) * uses.sum()
        book.copy_(sums / share[:, None])
        return -(share / share.sum() * (share / share.sum() + 1e-10).log()).sum().exp()

    def step() -> None:
        total, rows, chosen = loss(image, book)
        total.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            learn(rows, chosen)

    return step
