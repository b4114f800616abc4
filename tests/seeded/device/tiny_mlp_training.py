"""A multi-layer perceptron of many thin layers, with a small batch."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 120) -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(12) for m in (nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU())]
    model = nn.Sequential(*layers).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(32, 128, device=device)
    for _ in range(steps):
        loss = model(x).square().mean()  # finds: launch-bound
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
