"""Forty attributes of a product, each with a classifier of its own upon common features."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
VALUES = 8
ATTRIBUTES = [VALUES] * 40


class Catalogue(nn.Module):
    def __init__(self, width: int = 1024, depth: int = 6) -> None:
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(depth))
        self.heads = nn.ModuleList(nn.Linear(width, values) for values in ATTRIBUTES)
        # mend: self.heads = nn.Linear(width, sum(ATTRIBUTES))

    def loss(self, x: torch.Tensor, attributes: torch.Tensor) -> torch.Tensor:
        for up, down in zip(self.up, self.down):
            x = x + down(F.gelu(up(x)))
        losses = [F.cross_entropy(head(x), attributes[:, k]) for k, head in enumerate(self.heads)]  # finds: small-kernels
        # mend: losses = [F.cross_entropy(self.heads(x).view(-1, VALUES), attributes.reshape(-1))]
        return torch.stack(losses).mean()


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = Catalogue().to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    products = torch.randn(8192, 1024, device=device, dtype=torch.bfloat16)
    attributes = torch.randint(VALUES, (8192, len(ATTRIBUTES)), device=device)
    for _ in range(steps):
        opt.zero_grad()
        model.loss(products, attributes).backward()
        opt.step()


if __name__ == "__main__":
    main()
