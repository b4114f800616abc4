"""Images made four times as large, with sub-pixel convolutions and a cosine schedule."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.conv2(F.relu(self.conv1(x)))


class EDSR(nn.Module):
    def __init__(self, c=32, blocks=4):
        super().__init__()
        self.head = nn.Conv2d(3, c, 3, padding=1)
        self.body = nn.Sequential(*[Residual(c) for _ in range(blocks)])
        self.tail = nn.Sequential(
            nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2),
            nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x):
        x = self.head(x)
        return self.tail(x + self.body(x))


def main(steps=10):
    torch.manual_seed(0)
    net = EDSR()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    images = torch.rand(32, 3, 96, 96)
    for _ in range(steps):
        hr = images[torch.randperm(32)[:4]]
        lr = F.interpolate(hr, scale_factor=0.25, mode="bicubic", antialias=True)
        loss = F.l1_loss(net(lr), hr)
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
    print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
