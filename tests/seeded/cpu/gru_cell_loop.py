"""A recurrent encoder that steps its cell over the sequence in Python."""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inp, self.rec = nn.Linear(width, width), nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.size(0), x.size(2))
        pre = self.inp(x)
        for t in range(x.size(1)):
            h = 0.9 * h + 0.1 * torch.tanh(pre[:, t] + h)  # finds: small-kernels
        return self.gate(h)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Encoder(64)
    head = nn.Linear(64, 8)
    opt = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3, fused=True)
    x, y = torch.randn(32, 96, 64), torch.randint(8, (32,))
    for _ in range(steps):
        loss = nn.functional.cross_entropy(head(model(x)), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
