"""Faces told apart with the triplet loss; the hardest positive and negative are looked for anchor by anchor."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Embedder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(32, dim)

    def forward(self, x):
        return F.normalize(self.fc(self.features(x).flatten(1)))


def batch_hard_triplet_loss(emb, labels, margin=0.3):
    dist = torch.cdist(emb, emb)
    losses = []
    for i in range(len(emb)):
        same = labels == labels[i]  # may: small-kernels
        hardest_pos = dist[i][same].max()  # may: small-kernels
        hardest_neg = dist[i][~same].min()  # finds: small-kernels
        losses.append(F.relu(hardest_pos - hardest_neg + margin))  # may: small-kernels
    return torch.stack(losses).mean()


def main(iters=25):
    torch.manual_seed(0)
    model = Embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(iters):
        labels = torch.arange(16).repeat_interleave(4)
        images = torch.randn(64, 3, 24, 24)
        loss = batch_hard_triplet_loss(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
