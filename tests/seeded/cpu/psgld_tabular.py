"""Posterior sampling of a deep tabular net with preconditioned SGLD (Li et al. 2016)."""
import copy
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset


class PSGLD(Optimizer):
    """RMSprop preconditioner, Gaussian prior as weight decay, Langevin noise."""

    def __init__(self, params, lr=1e-4, alpha=0.99, eps=1e-5, prior_precision=1.0, n_data=1):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "decay": prior_precision / n_data, "n_data": n_data})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["v"] = torch.ones_like(p)

    def _move(self, p, v, group):
        g = p.grad + group["decay"] * p  # may: single-tensor-optimizer
        v.mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])  # may: single-tensor-optimizer
        precond = 1.0 / (v.sqrt() + group["eps"])  # may: single-tensor-optimizer
        noise = torch.randn_like(p) * (precond * (2 * group["lr"] / group["n_data"])).sqrt()  # may: single-tensor-optimizer
        p.sub_(group["lr"] * precond * g).add_(noise)  # may: single-tensor-optimizer

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:  # may: single-tensor-optimizer
            # mend: for ps in [group["params"]]:
                self._move(p, self.state[p]["v"], group)  # finds: single-tensor-optimizer
                # mend: grads, vs = [p.grad for p in ps], [self.state[p]["v"] for p in ps]
                # mend: g = torch._foreach_add(grads, ps, alpha=group["decay"])
                # mend: torch._foreach_mul_(vs, group["alpha"])
                # mend: torch._foreach_addcmul_(vs, grads, grads, value=1 - group["alpha"])
                # mend: precond = torch._foreach_sqrt(vs)
                # mend: torch._foreach_add_(precond, group["eps"])
                # mend: torch._foreach_reciprocal_(precond)
                # mend: torch._foreach_mul_(g, precond)
                # mend: sizes = [p.numel() for p in ps]
                # mend: noise = [z.view_as(p) for z, p in zip(torch.randn(sum(sizes)).split(sizes), ps)]
                # mend: torch._foreach_mul_(precond, 2 * group["lr"] / group["n_data"])
                # mend: torch._foreach_sqrt_(precond)
                # mend: torch._foreach_add_(ps, g, alpha=-group["lr"])
                # mend: torch._foreach_addcmul_(ps, noise, precond)


class ResidualBlock(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class TabularNet(nn.Module):
    def __init__(self, n_num, n_tokens, n_cat, width=48, hidden=64, depth=16):
        super().__init__()
        self.emb = nn.EmbeddingBag(n_tokens, width, mode="sum")
        self.num = nn.Linear(n_num, width)
        self.blocks = nn.ModuleList(ResidualBlock(width, hidden) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, num, cat):
        x = self.num(num) + self.emb(cat)
        for block in self.blocks:
            x = block(x)
        return self.out(x).squeeze(-1)


def claims(n=12000, n_num=14, n_cat=6, levels=20, seed=0):
    gen = torch.Generator().manual_seed(seed)
    num = torch.randn(n, n_num, generator=gen)
    cat = torch.randint(levels, (n, n_cat), generator=gen) + torch.arange(n_cat) * levels
    effect = 0.4 * torch.randn(n_cat * levels, generator=gen)
    y = num[:, 0] * num[:, 1] + torch.sin(num[:, 2]) + effect[cat].sum(1)
    y = y + 0.3 * torch.randn(n, generator=gen)
    return TensorDataset(num, cat, y), n_num, n_cat * levels, n_cat


class SnapshotKeeper:
    """Keeps every `thin`-th state of the chain for the posterior predictive."""

    def __init__(self, thin=50, keep=6):
        self.thin, self.bank = thin, deque(maxlen=keep)

    def __call__(self, i, model):
        if i and i % self.thin == 0:
            self.bank.append(copy.deepcopy(model.state_dict()))


def main(steps: int = 300):
    torch.manual_seed(1)
    data, n_num, n_tokens, n_cat = claims()
    batches = BatchSampler(RandomSampler(data), 96, drop_last=True)
    loader = DataLoader(data, sampler=batches, batch_size=None)
    model = TabularNet(n_num, n_tokens, n_cat)
    opt = PSGLD(model.parameters(), lr=5e-4, n_data=len(data))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: (1 + i / 200) ** -0.55)
    keeper = SnapshotKeeper()
    done = 0
    while done < steps:
        for num, cat, y in loader:
            loss = F.gaussian_nll_loss(model(num, cat), y, torch.full_like(y, 0.1))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            keeper(done, model)
            done += 1
            if done == steps:
                break


if __name__ == "__main__":
    main()
