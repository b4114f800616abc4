"""Scaling, principal components and a softmax regression, as one would write them with scikit-learn, in torch."""
import torch
from torch import nn


class Scaler:
    def fit(self, x, y=None):
        self.mean, self.scale = x.mean(0), x.std(0).clamp_min(1e-6)
        return self

    def transform(self, x):
        return (x - self.mean) / self.scale


class Components:
    def __init__(self, n):
        self.n = n

    def fit(self, x, y=None):
        _, _, self.axes = torch.pca_lowrank(x, self.n, niter=2)
        return self

    def transform(self, x):
        return x @ self.axes


class SoftmaxRegression:
    def __init__(self, classes, epochs, batch=512):
        self.classes, self.epochs, self.batch = classes, epochs, batch

    def fit(self, x, y):
        self.linear = nn.Linear(x.size(1), self.classes)
        opt = torch.optim.SGD(self.linear.parameters(), lr=0.1, fused=True)
        for _ in range(self.epochs):
            for rows in torch.randperm(len(x)).split(self.batch):
                loss = nn.functional.cross_entropy(self.linear(x[rows]), y[rows])
                opt.zero_grad()
                loss.backward()
                opt.step()
        return self

    def predict(self, x):
        with torch.no_grad():
            return self.linear(x).argmax(1)


class Pipeline:
    def __init__(self, *parts):
        self.parts = parts

    def fit(self, x, y):
        for part in self.parts[:-1]:
            x = part.fit(x, y).transform(x)
        self.parts[-1].fit(x, y)
        return self

    def predict(self, x):
        for part in self.parts[:-1]:
            x = part.transform(x)
        return self.parts[-1].predict(x)


def main(steps=12):
    torch.manual_seed(0)
    x, y = torch.randn(4096, 300), torch.randint(8, (4096,))
    model = Pipeline(Scaler(), Components(64), SoftmaxRegression(8, epochs=steps)).fit(x, y)
    print("right:", (model.predict(x) == y).float().mean().item())


if __name__ == "__main__":
    main()
