"""An LSTM through the library."""
import torch
from torch import nn


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.LSTM(64, 128, batch_first=True)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(32, 40, 64)
    for _ in range(steps):
        out, _ = model(x)
        loss = out.square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
