"""Shapes told apart by their points: edge convolutions over nearest neighbours (DGCNN)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def knn(x, k):
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = (x ** 2).sum(1, keepdim=True)
    return (-xx - inner - xx.transpose(2, 1)).topk(k, dim=-1)[1]


def edge_features(x, k=12):
    b, c, n = x.shape
    idx = knn(x, k)
    flat = (idx + torch.arange(b)[:, None, None] * n).reshape(-1)
    points = x.transpose(2, 1).reshape(b * n, c)
    neighbours = points[flat].view(b, n, k, c)
    centre = points.view(b, n, 1, c).expand(-1, -1, k, -1)
    return torch.cat([neighbours - centre, centre], dim=3).permute(0, 3, 1, 2)


class DGCNN(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(6, 32, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2))
        self.conv2 = nn.Sequential(nn.Conv2d(64, 64, 1, bias=False), nn.BatchNorm2d(64), nn.LeakyReLU(0.2))
        self.head = nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, classes))

    def forward(self, x):
        x1 = self.conv1(edge_features(x)).max(dim=-1)[0]
        x2 = self.conv2(edge_features(x1)).max(dim=-1)[0]
        return self.head(torch.cat([x1, x2], dim=1).max(dim=-1)[0])


def main(steps=16):
    torch.manual_seed(0)
    clouds = torch.randn(64, 3, 256)
    labels = torch.randint(0, 10, (64,))
    model = DGCNN()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    for _ in range(steps):
        pick = torch.randint(0, 64, (8,))
        out = model(clouds[pick])
        loss = F.cross_entropy(out, labels[pick], label_smoothing=0.2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


if __name__ == "__main__":
    main()
