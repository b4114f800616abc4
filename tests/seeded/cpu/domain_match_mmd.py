"""Two domains brought together: the discrepancy of their features, a kernel between every pair of rows."""
import torch
import torch.nn as nn


def rbf(u, v, width=8.0):
    return torch.exp(-torch.sum((u - v) ** 2) / width)  # finds: small-kernels


def gram(a, b):
    return torch.stack([torch.stack([rbf(u, v) for v in b]) for u in a])
    # mend: return torch.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 8.0)


def mmd(a, b):
    return gram(a, a).mean() + gram(b, b).mean() - 2 * gram(a, b).mean()


def main(steps=8):
    torch.manual_seed(0)
    features = nn.Sequential(nn.Linear(200, 256), nn.ReLU(), nn.Linear(256, 32))
    classifier = nn.Linear(32, 5)
    opt = torch.optim.SGD([*features.parameters(), *classifier.parameters()], lr=0.01)
    for _ in range(steps):
        source, labels = torch.randn(64, 200), torch.randint(5, (64,))
        target = torch.randn(64, 200) + 0.5
        fs, ft = features(source), features(target)
        loss = nn.functional.cross_entropy(classifier(fs), labels) + 0.3 * mmd(fs[:12], ft[:12])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
