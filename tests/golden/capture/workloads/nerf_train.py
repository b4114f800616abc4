"""A radiance field, compiled, trained in float32 with TF32 products: a coarse pass without gradients (cumprod of what
each sample lets through), new samples drawn from its weights, sines and cosines of places and directions, a perceptron
with a skip, volume rendering by exp of sums, squared error, fused Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

RAYS, COARSE, FINE, WIDTH, DEPTH, NEAR, FAR = 2048, 32, 64, 256, 6, 2.0, 6.0
PLACE_BANDS, VIEW_BANDS = 10, 4


def encode(x: torch.Tensor, bands: int) -> torch.Tensor:
    angle = x[..., None] * 2.0 ** torch.arange(bands, device=x.device)
    return torch.cat((x, angle.sin().flatten(-2), angle.cos().flatten(-2)), -1)


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        place, view = 3 + 6 * PLACE_BANDS, 3 + 6 * VIEW_BANDS
        widths = [place] + [WIDTH + (place if i == DEPTH // 2 else 0) for i in range(1, DEPTH)]
        self.layers = nn.ModuleList(nn.Linear(w, WIDTH) for w in widths)
        self.density, self.feature = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)
        self.view, self.colour = nn.Linear(WIDTH + view, WIDTH // 2), nn.Linear(WIDTH // 2, 3)

    def forward(self, place: torch.Tensor, view: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = x = encode(place, PLACE_BANDS)
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(torch.cat((x, code), -1) if i == DEPTH // 2 else x))
        seen = torch.cat((self.feature(x), encode(view, VIEW_BANDS)), -1)
        return F.softplus(self.density(x)[..., 0] - 1), torch.sigmoid(self.colour(F.relu(self.view(seen))))


class Coarse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3 + 6 * PLACE_BANDS, 64), nn.Linear(64, 1)

    def forward(self, place: torch.Tensor) -> torch.Tensor:
        return F.softplus(self.down(F.relu(self.up(encode(place, PLACE_BANDS))))[..., 0])


def resample(weight: torch.Tensor, edge: torch.Tensor, count: int) -> torch.Tensor:
    share = (weight + 1e-5) / (weight + 1e-5).sum(-1, keepdim=True)
    total = F.pad(share.cumsum(-1), (1, 0))
    drawn = torch.rand(weight.shape[0], count, device=weight.device)
    above = torch.searchsorted(total, drawn, right=True).clamp(1, weight.shape[1])
    low, high = total.gather(1, above - 1), total.gather(1, above)
    start, end = edge.gather(1, above - 1), edge.gather(1, above)
    return (start + (drawn - low) / (high - low).clamp(min=1e-5) * (end - start)).sort(-1).values


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    field, coarse = Field().cuda(), Coarse().cuda().requires_grad_(False)
    optimizer = torch.optim.Adam(field.parameters(), lr=5e-4, fused=True)
    origin = torch.randn(RAYS, 3, device="cuda")
    view = F.normalize(torch.randn(RAYS, 3, device="cuda"), dim=-1)
    pixel = torch.rand(RAYS, 3, device="cuda")

    @torch.compile
    def loss(origin: torch.Tensor, view: torch.Tensor, pixel: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            edge = torch.linspace(NEAR, FAR, COARSE + 1, device=origin.device).expand(origin.shape[0], -1)
            middle = (edge[:, 1:] + edge[:, :-1]) / 2
            opaque = 1 - torch.exp(-coarse(origin[:, None] + view[:, None] * middle[..., None]) * edge.diff(dim=1))
            through = torch.cumprod(F.pad(1 - opaque + 1e-10, (1, 0), value=1.0), -1)[:, :-1]
            depth = resample(opaque * through, edge, FINE)
        density, colour = field(origin[:, None] + view[:, None] * depth[..., None], view[:, None].expand(-1, FINE, 3))
        thickness = density * F.pad(depth.diff(dim=1), (0, 1), value=1e10)
        before = F.pad(thickness.cumsum(-1)[:, :-1], (1, 0))
        weight = torch.exp(-before) * -torch.expm1(-thickness)
        made = (weight[..., None] * colour).sum(1) + (1 - weight.sum(1))[:, None]
        return F.mse_loss(made, pixel)

    def step() -> None:
        loss(origin, view, pixel).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
