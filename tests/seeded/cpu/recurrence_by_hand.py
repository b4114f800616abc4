"""An exponential moving average over time, step by step."""
import torch
from torch import nn


def smooth(x: torch.Tensor, decay: float) -> torch.Tensor:
    state = x[:, 0]
    out = [state]
    for t in range(1, x.shape[1]):
        state = decay * state + (1 - decay) * x[:, t]  # finds: small-kernels
        out.append(state)
    return torch.stack(out, 1)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(16, 200, 8)
    for _ in range(steps):
        loss = smooth(model(x), 0.9).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
