"""Which headline to show: a contextual bandit with an ensemble, evaluated in batches and logged now and then."""
import torch
import torch.nn as nn


class Ensemble(nn.Module):
    def __init__(self, members=10, context=64, arms=20, width=128):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(members, context, width) / context**0.5)
        self.b1 = nn.Parameter(torch.zeros(members, 1, width))
        self.w2 = nn.Parameter(torch.randn(members, width, arms) / width**0.5)

    def forward(self, x):
        h = torch.relu(torch.baddbmm(self.b1, x.expand(len(self.w1), *x.shape), self.w1))
        return torch.bmm(h, self.w2)


def main(rounds=60):
    torch.manual_seed(0)
    truth = torch.randn(64, 20) / 8
    model = Ensemble()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    clicks = torch.zeros(())
    for i in range(rounds):
        x = torch.randn(256, 64)
        with torch.no_grad():
            member = torch.randint(0, 10, (256,))
            arm = model(x)[member, torch.arange(256)].argmax(1)
            reward = torch.bernoulli(torch.sigmoid((x @ truth).gather(1, arm[:, None])[:, 0]))
        pred = model(x).gather(2, arm.expand(10, 256)[..., None])[..., 0]
        loss = nn.functional.binary_cross_entropy_with_logits(pred, reward.expand(10, 256))
        opt.zero_grad()
        loss.backward()
        opt.step()
        clicks += reward.mean()
        if (i + 1) % 30 == 0:
            print(i + 1, (clicks / (i + 1)).item())


if __name__ == "__main__":
    main()
