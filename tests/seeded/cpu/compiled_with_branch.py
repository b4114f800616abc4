"""A compiled forward pass that writes to a log in the middle."""
import logging

import torch
from torch import nn

log = logging.getLogger("model")


class Mixer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.gelu(self.up(self.norm(x)))
        if h.abs().max() > 1e6:  # finds: graph-break
            log.warning("activations explode")
        return x + self.down(h)


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(Mixer(256))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(256, 256)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
