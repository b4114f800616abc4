"""The pairwise penalty on whole tensors."""
import torch
from torch import nn


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = nn.Linear(256, 256)
    opt = torch.optim.SGD(model.parameters(), lr=1e-5)
    x = torch.randn(256, 256)
    for _ in range(steps):
        out = model(x)
        loss = (out @ out.T).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
