"""A convolutional net in channels_last, half precision, without useless biases."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(6) for m in (nn.Conv2d(128, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128), nn.ReLU())]
    model = nn.Sequential(*layers).to(device, torch.float16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(64, 128, 112, 112, device=device, dtype=torch.float16).to(memory_format=torch.channels_last)
    for _ in range(steps):
        loss = model(x).float().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
