# Multivariate Hawkes process on an order-flow like event stream, maximum likelihood.
import numpy as np
import torch
from torch import nn

EVENT_TYPES = ["bid+", "bid-", "ask+", "ask-", "trade_buy", "trade_sell"]


class PointProcess(nn.Module):
    """Base of all processes here; subclasses say what the log-likelihood of a window is."""

    def window_loglik(self, times, marks):
        raise NotImplementedError

    def nll(self, times, marks):
        ll = torch.stack([self.window_loglik(t, m) for t, m in zip(times, marks)])  # finds: small-kernels
        # mend: ll = self.window_loglik(times, marks)
        return -ll.sum() / times.numel()


class ExpHawkes(PointProcess):
    def __init__(self, n_types, window):
        super().__init__()
        self.log_mu = nn.Parameter(torch.full((n_types,), -1.5))
        self.log_alpha = nn.Parameter(torch.full((n_types, n_types), -3.0) + 0.1 * torch.randn(n_types, n_types))
        self.log_beta = nn.Parameter(torch.zeros(n_types, n_types))
        self.register_buffer("past", torch.ones(window, window).tril(-1), persistent=False)

    def window_loglik(self, times, marks):
        """times, marks: (..., L). Pairs (i, j) with j before i excite i."""
        mu, alpha, beta = self.log_mu.exp(), self.log_alpha.exp(), self.log_beta.exp()
        dt = (times[..., :, None] - times[..., None, :]).clamp_min(0)  # may: small-kernels
        to, frm = marks[..., :, None], marks[..., None, :]
        b = beta[to, frm]  # may: small-kernels
        kernel = alpha[to, frm] * b * torch.exp(-b * dt) * self.past  # may: small-kernels
        intensity = mu[marks] + kernel.sum(-1)  # may: small-kernels
        horizon = times[..., -1:]
        tail = (horizon - times)[..., None, :]
        mass = alpha[:, marks].movedim(0, -2)  # may: small-kernels
        decay = torch.exp(-beta[:, marks].movedim(0, -2) * tail)  # may: small-kernels
        compensator = mu.sum() * horizon[..., 0] + (mass * (1 - decay)).sum((-1, -2))  # may: small-kernels
        return intensity.log().sum(-1) - compensator  # may: small-kernels


def simulate_branching(rng, n_types, t_max, mu=0.35, branching=0.45):
    """Cluster construction: immigrants, then generations of offspring."""
    alpha = rng.dirichlet(np.ones(n_types), n_types) * branching
    events = []
    t0 = np.sort(rng.uniform(0, t_max, rng.poisson(mu * n_types * t_max)))
    frontier = [(t, int(rng.integers(n_types))) for t in t0]
    while frontier:
        events.extend(frontier)
        children = []
        for t, k in frontier:
            for m in np.flatnonzero(rng.poisson(alpha[k])):
                s = t + rng.exponential(1.0)
                if s < t_max:
                    children.append((s, int(m)))
        frontier = children
    events.sort()
    return np.array([e[0] for e in events]), np.array([e[1] for e in events])


def cut_windows(times, marks, length):
    n = len(times) // length
    t = times[: n * length].reshape(n, length)
    m = marks[: n * length].reshape(n, length)
    t = t - t[:, :1]
    return torch.tensor(t, dtype=torch.float32), torch.tensor(m, dtype=torch.int64)


class Trainer:
    def __init__(self, model, times, marks, batch=24, lr=0.02, seed=0):
        self.model, self.times, self.marks, self.batch = model, times, marks, batch
        self.opt = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
        self.gen = torch.Generator().manual_seed(seed)
        self.trace = []

    def batches(self):
        while True:
            order = torch.randperm(len(self.times), generator=self.gen)
            for rows in order.split(self.batch)[:-1]:
                yield self.times[rows], self.marks[rows]

    def fit(self, steps):
        source = self.batches()
        for i in range(steps):
            t, m = next(source)
            self.opt.zero_grad()
            loss = self.model.nll(t, m)
            loss.backward()
            self.opt.step()
            if i % 50 == 0:
                self.trace.append((i, loss.item()))
        return self.trace


def main(steps: int = 8):
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    window = 48
    times, marks = simulate_branching(rng, len(EVENT_TYPES), t_max=4000.0)
    t, m = cut_windows(times, marks, window)
    model = ExpHawkes(len(EVENT_TYPES), window)
    Trainer(model, t, m).fit(steps)


if __name__ == "__main__":
    main()
