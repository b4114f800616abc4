"""A flow of affine coupling layers (RealNVP) on tabular data, with an average of its weights for evaluation."""
import torch
import torch.nn as nn
from torch.distributions import MultivariateNormal
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Coupling(nn.Module):
    def __init__(self, dim, hidden, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(dim // 2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        out = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return out, s.sum(1)


class RealNVP(nn.Module):
    def __init__(self, dim=32, hidden=256, n_layers=8):
        super().__init__()
        self.couplings = nn.ModuleList(Coupling(dim, hidden, bool(i % 2)) for i in range(n_layers))
        self.register_buffer("loc", torch.zeros(dim))
        self.register_buffer("cov", torch.eye(dim))

    def log_prob(self, x):
        log_det = x.new_zeros(len(x))
        for coupling in self.couplings:
            x, ld = coupling(x)
            log_det = log_det + ld
        return MultivariateNormal(self.loc, self.cov).log_prob(x) + log_det

    forward = log_prob


def main(steps=40):
    torch.manual_seed(0)
    flow = RealNVP()
    ema = AveragedModel(flow, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-4)
    data = torch.randn(20000, 32) @ torch.randn(32, 32) * 0.2
    history = []
    for _ in range(steps):
        x = data[torch.randint(0, len(data), (1024,))]
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
        ema.update_parameters(flow)
        history.append(loss.detach())
    print("last losses", torch.stack(history[-5:]).mean().item())


if __name__ == "__main__":
    main()
