"""Anomaly detection was left on."""
import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)  # finds: debug-mode


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x, y = torch.randn(256, 128), torch.randint(10, (256,))
    for _ in range(steps):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
