"""State of health of battery cells from charge curves; quantile heads, the whole model compiled."""
import argparse
import logging
import sys

import torch
from torch import nn

LOG = logging.getLogger("battery")
QUANTILES = (0.1, 0.5, 0.9)


class HealthNet(nn.Module):
    def __init__(self, points: int = 64, signals: int = 4, width: int = 640) -> None:
        super().__init__()
        self.register_buffer("levels", torch.tensor(QUANTILES), persistent=False)
        self.enter = nn.Linear(points * signals, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.heads = nn.Linear(width, len(QUANTILES))

    def forward(self, curves: torch.Tensor) -> torch.Tensor:
        h = nn.functional.silu(self.enter(curves.flatten(1)))
        for layer in self.hidden:
            h = nn.functional.silu(layer(h))
        return self.heads(h)

    def loss(self, curves: torch.Tensor, health: torch.Tensor) -> torch.Tensor:
        off = health[:, None] - self(curves)
        return torch.maximum(self.levels * off, (self.levels - 1) * off).mean()


def cells(count: int, points: int) -> tuple[torch.Tensor, torch.Tensor]:
    health = 0.7 + 0.3 * torch.rand(count)
    t = torch.linspace(0, 1, points)
    volts = 3.0 + 1.2 * t.pow(health[:, None])
    amps = torch.exp(-3 * t * health[:, None])
    warm = 25 + 10 * (1 - health[:, None]) * t
    curves = torch.stack([volts, amps, warm, volts * amps], dim=-1)
    return (curves - curves.mean((0, 1))) / curves.std((0, 1)), health


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def main() -> int:
    args = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(21)
    torch.set_num_threads(1)
    curves, health = cells(args.cells, 64)
    model = HealthNet()
    objective = model.loss if args.no_compile else torch.compile(model.loss, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        order = torch.randperm(len(curves))
        for batch in order.split(args.batch_size):
            loss = objective(curves[batch], health[batch])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
        LOG.info("epoch %d pinball %.4f", epoch, loss.item())
    return 0


if __name__ == "__main__":
    sys.exit(main())
