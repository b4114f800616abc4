"""The module is asked to zero its gradients, in the old way."""
import torch
from torch import nn


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 512))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(8, 1024)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        model.zero_grad(set_to_none=False)  # finds: zero-grad
        # mend: model.zero_grad()


if __name__ == "__main__":
    main()
