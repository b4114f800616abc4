"""Convolutions with a bias that batch normalisation removes."""
import torch
from torch import nn

device = "cuda"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(64, 64, 3, padding=1) for _ in range(6)])
        # mend: self.convs = nn.ModuleList([nn.Conv2d(64, 64, 3, padding=1, bias=False) for _ in range(6)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(64) for _ in range(6)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.convs, self.norms):
            x = torch.relu(norm(conv(x)))  # finds: conv-bias
        return x


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = Net().to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(32, 64, 112, 112, device=device).to(memory_format=torch.channels_last)
    for _ in range(steps):
        loss = model(x).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
