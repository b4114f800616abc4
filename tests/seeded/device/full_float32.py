"""A perceptron in float32 with PyTorch's default precision."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    pass
    # mend: torch.set_float32_matmul_precision("high")
    model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 4096)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(2048, 4096, device=device)
    for _ in range(steps):
        loss = model(x).square().mean()  # finds: tf32-off
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
