"""A small U-Net under autocast, in the layout that tensors are made in."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class Unit(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)  # finds: channels-last
        return F.relu(self.norm(y))


class UNet(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.enter = nn.Sequential(Unit(8, width), Unit(width, width))
        self.deep = nn.Sequential(Unit(width, 2 * width), Unit(2 * width, 2 * width))
        self.floor = nn.Sequential(Unit(2 * width, 4 * width), Unit(4 * width, 2 * width))
        self.rise = nn.Sequential(Unit(4 * width, 2 * width), Unit(2 * width, width))
        self.leave = nn.Sequential(Unit(2 * width, width), Unit(width, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.enter(x)
        b = self.deep(F.max_pool2d(a, 2))
        c = F.interpolate(self.floor(F.max_pool2d(b, 2)), scale_factor=2)
        d = F.interpolate(self.rise(torch.cat([b, c], 1)), scale_factor=2)
        return self.leave(torch.cat([a, d], 1))


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = UNet().to(device)
    # mend: model = UNet().to(device, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x = torch.randn(16, 8, 256, 256, device=device)
    # mend: x = torch.randn(16, 8, 256, 256, device=device).to(memory_format=torch.channels_last)
    for _ in range(steps):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = (model(x) - x).float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
