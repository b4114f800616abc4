# Abdominal organ segmentation, 2D slices, soft dice averaged over patients and organs.
# Adapted from a challenge baseline.

import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 13
SIZE = 32


class DoubleConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.net(x)


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.enc1 = DoubleConv(1, width)
        self.enc2 = DoubleConv(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = DoubleConv(2 * width, width)
        self.out = nn.Conv2d(width, NUM_CLASSES, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        return self.out(self.dec1(torch.cat([a, self.up(b)], dim=1)))


class DiceLoss(nn.Module):
    """1 - dice, for every patient and every organ alone, then the mean."""

    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, target):
        p, s = torch.softmax(logits, dim=1), self.smooth
        loss = 0.0
        for i in range(p.shape[0]):
        # mend:
            for c in range(p.shape[1]):
            # mend:
                loss = loss + 1 - (2 * (p[i, c] * target[i, c]).sum() + s) / (p[i, c].sum() + target[i, c].sum() + s)  # finds: small-kernels
        # mend: overlap, mass = (p * target).sum((2, 3)), p.sum((2, 3)) + target.sum((2, 3))
        # mend: loss = (1 - (2 * overlap + s) / (mass + s)).sum()
        return loss / (p.shape[0] * p.shape[1])


def make_slices(count):
    """Blobs, one per organ, and noise."""
    axis = torch.linspace(-1, 1, SIZE)
    centres = torch.rand(count, NUM_CLASSES, 2) * 2 - 1
    dy = axis[None, None, :, None] - centres[..., 0, None, None]
    dx = axis[None, None, None, :] - centres[..., 1, None, None]
    labels = (dy.square() + dx.square()).argmin(dim=1)
    images = labels[:, None].float() / NUM_CLASSES + 0.1 * torch.randn(count, 1, SIZE, SIZE)
    return images, F.one_hot(labels, NUM_CLASSES).permute(0, 3, 1, 2).float().contiguous()


def main(steps: int = 30):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    images, masks = make_slices(96)
    model = UNet()
    criterion = DiceLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)

    model.train()
    for step in range(steps):
        batch = torch.randint(0, 96, (4,))
        optimizer.zero_grad()
        loss = criterion(model(images[batch]), masks[batch])
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d}  dice loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
