"""Eight experts, each on the tokens that chose it."""
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(experts)]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, choice = self.gate(x).softmax(-1).max(-1)
        order = choice.argsort()
        counts = torch.bincount(choice, minlength=len(self.experts)).tolist()
        parts = x[order].split(counts)
        y = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        return x + torch.empty_like(y).index_copy(0, order, y) * weight[:, None]


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Experts(96, 8), nn.LayerNorm(96), Experts(96, 8))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(1024, 96)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
