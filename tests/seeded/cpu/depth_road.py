"""Monocular depth for road scenes. Pixels are weighted by how often a lidar return falls on them."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

H, W = 96, 128


def lidar_prior(height, width):
    """Share of frames with a return at each pixel (fitted once on the training drives)."""
    rows = np.linspace(0.0, 1.0, height)[:, None]
    cols = np.linspace(-1.0, 1.0, width)[None, :]
    prior = (1.0 / (1.0 + np.exp(-12.0 * (rows - 0.35)))) * (1.0 - 0.3 * cols**2)
    return prior / prior.mean()


class ScaleAwareLoss(nn.Module):
    def __init__(self, scales=3, alpha=0.85):
        super().__init__()
        self.scales, self.alpha = scales, alpha
        self.register_buffer("prior", torch.from_numpy(lidar_prior(H, W))[None, None])  # may: float64
        # mend: self.register_buffer("prior", torch.from_numpy(lidar_prior(H, W)).float()[None, None])

    @staticmethod
    def ssim(a, b, c1=0.01**2, c2=0.03**2):
        mu_a, mu_b = F.avg_pool2d(a, 3, 1), F.avg_pool2d(b, 3, 1)  # may: float64
        va = F.avg_pool2d(a * a, 3, 1) - mu_a**2  # may: float64
        vb = F.avg_pool2d(b * b, 3, 1) - mu_b**2  # may: float64
        cov = F.avg_pool2d(a * b, 3, 1) - mu_a * mu_b  # may: float64
        num = (2 * mu_a * mu_b + c1) * (2 * cov + c2)  # may: float64
        return num / ((mu_a**2 + mu_b**2 + c1) * (va + vb + c2))  # may: float64

    @staticmethod
    def edges(d):
        return d.diff(dim=-1).abs().mean() + d.diff(dim=-2).abs().mean()  # may: float64

    def forward(self, pred, target):
        p, t = pred.log() * self.prior, target.log() * self.prior  # finds: float64
        total = 0.0
        for _ in range(self.scales):
            diff = p - t
            silog = (diff.square().mean() - self.alpha * diff.mean() ** 2).clamp(min=1e-8).sqrt()  # may: float64
            similarity = (1 - self.ssim(p, t)).clamp(0, 2).mean()  # may: float64
            total = total + silog + 0.5 * similarity + 0.1 * self.edges(diff)
            p, t = F.avg_pool2d(p, 2), F.avg_pool2d(t, 2)  # may: float64
        return total / self.scales


class Separable(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False)
        self.point = nn.Conv2d(cin, cout, 1, bias=False)
        self.norm = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.relu(self.norm(self.point(self.depth(x))))


class DepthNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        self.enc1 = Separable(w, 2 * w, 2)
        self.enc2 = Separable(2 * w, 4 * w, 2)
        self.mid = Separable(4 * w, 2 * w)
        self.dec = Separable(2 * w, w)
        self.head = nn.Conv2d(w, 1, 3, padding=1)

    def forward(self, x):
        s0 = self.stem(x)
        s1 = self.enc1(s0)
        y = F.interpolate(self.mid(self.enc2(s1)), scale_factor=2.0) + s1
        y = F.interpolate(self.dec(y), scale_factor=2.0) + s0
        y = F.interpolate(self.head(y), size=(H, W), mode="bilinear", align_corners=False)
        return 1.0 + 79.0 * torch.sigmoid(y)


def drives(batch, gen):
    """Endless stream of (image, depth); a plane with boxes on it, enough to train on."""
    ramp = torch.linspace(70.0, 4.0, H)[:, None].expand(H, W)
    while True:
        depth = ramp + torch.randn(batch, 1, 1, 1, generator=gen)
        image = torch.rand(batch, 3, H, W, generator=gen)
        image = 0.3 * image + 0.7 * (depth / 80.0)
        yield image, depth.clamp(1.0, 80.0)


def main(steps: int = 300):
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    net, criterion = DepthNet(), ScaleAwareLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=5e-4, weight_decay=1e-2, fused=True)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=200, gamma=0.5)
    stream = drives(6, gen)
    for step in range(1, steps + 1):
        image, depth = next(stream)
        opt.zero_grad()
        loss = criterion(net(image), depth)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 100 == 0:
            assert torch.isfinite(loss).item()


if __name__ == "__main__":
    main()
