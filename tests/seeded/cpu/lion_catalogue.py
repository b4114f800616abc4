"""Catalogue search trained with an optimizer of one's own (Lion), which also clears the gradients."""
import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas})
        self.momenta = [torch.zeros_like(p) for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self):
        group = self.param_groups[0]
        params = group["params"]
        grads = [p.grad for p in params]
        update = torch._foreach_lerp(self.momenta, grads, 1 - group["betas"][0])
        torch._foreach_sign_(update)
        torch._foreach_add_(params, update, alpha=-group["lr"])
        torch._foreach_lerp_(self.momenta, grads, 1 - group["betas"][1])

    def zero_grad(self):
        torch._foreach_zero_([p.grad for g in self.param_groups for p in g["params"] if p.grad is not None])  # finds: zero-grad
        # mend: super().zero_grad()


def main(steps=30):
    torch.manual_seed(0)
    query = nn.Sequential(nn.Linear(3000, 1024), nn.ReLU(), nn.Linear(1024, 128))
    items = nn.Sequential(nn.Linear(1500, 1024), nn.ReLU(), nn.Linear(1024, 128))
    opt = Lion([*query.parameters(), *items.parameters()])
    for _ in range(steps):
        a, b = torch.rand(16, 3000), torch.rand(16, 1500)
        scores = query(a) @ items(b).T
        loss = nn.functional.cross_entropy(scores, torch.arange(16))
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
