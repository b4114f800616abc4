"""Learns traffic-signal phases with advantage actor-critic on many simulated road grids at once."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class CityConfig:
    cities: int = 384
    side: int = 5
    approaches: int = 4
    phases: int = 2
    horizon: int = 8
    gamma: float = 0.97
    lam: float = 0.9
    lr: float = 7e-4

    @property
    def crossings(self) -> int:
        return self.side * self.side


class SignalGrid:
    """Queues at every approach of a torus of crossings; all cities advance in one set of tensor operations."""

    def __init__(self, cfg: CityConfig, gen: torch.Generator):
        self.cfg, self.gen = cfg, gen
        n = cfg.crossings
        self.queue = torch.zeros(cfg.cities, n, cfg.approaches)
        self.held = torch.zeros(cfg.cities, n)
        self.phase = torch.zeros(cfg.cities, n, dtype=torch.long)
        self.demand = 0.15 + 0.2 * torch.rand(cfg.cities, n, cfg.approaches, generator=gen)
        # vehicles that leave by approach a arrive at the neighbour on that side
        r, c = torch.arange(n) // cfg.side, torch.arange(n) % cfg.side
        moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
        ahead = [((r + dr) % cfg.side) * cfg.side + (c + dc) % cfg.side for dr, dc in moves]
        self.source = torch.stack(ahead, dim=1).mul(cfg.approaches).add(torch.arange(cfg.approaches)).flatten()
        self.green = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])

    def observe(self):
        return torch.cat([self.queue * 0.1, self.demand, self.held.unsqueeze(-1) * 0.1,
                          self.phase.unsqueeze(-1).float()], dim=-1)

    def advance(self, action):
        switched = action != self.phase
        self.phase = action
        self.held = torch.where(switched, 0.0, self.held + 1)
        capacity = torch.where(switched, 0.5, 2.0).unsqueeze(-1)  # amber costs throughput
        served = torch.minimum(self.queue, self.green[action] * capacity)
        onward = 0.6 * served.flatten(1).index_select(1, self.source).view_as(served)
        fresh = (torch.rand(served.shape, generator=self.gen) < self.demand).float()
        self.queue = (self.queue - served + onward + fresh).clamp(max=40.0)
        return -0.05 * self.queue.sum(-1)


class SignalPolicy(nn.Module):
    def __init__(self, cfg: CityConfig, width: int = 48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2 * cfg.approaches + 2, width), nn.Tanh(),
                                  nn.Linear(width, width), nn.Tanh())
        self.out = nn.Linear(width, cfg.phases + 1)

    def forward(self, seen):
        logits, value = self.out(self.body(seen)).split((self.out.out_features - 1, 1), dim=-1)
        return logits, value.squeeze(-1)


class Rollout:
    """Room for one horizon, allocated once."""

    def __init__(self, cfg: CityConfig):
        shape = (cfg.horizon, cfg.cities, cfg.crossings)
        self.cfg = cfg
        self.seen = torch.zeros(*shape, 2 * cfg.approaches + 2)
        self.action = torch.zeros(shape, dtype=torch.long)
        self.reward, self.value = torch.zeros(shape), torch.zeros(shape)

    def advantages(self, last_value):
        """Generalised advantage; backwards in time, each step needs the later one."""
        out, carry, after = torch.empty_like(self.reward), torch.zeros_like(last_value), last_value
        for t in range(self.cfg.horizon - 1, -1, -1):
            delta = self.reward[t] + self.cfg.gamma * after - self.value[t]
            carry = delta + self.cfg.gamma * self.cfg.lam * carry
            out[t], after = carry, self.value[t]
        return out


def learn(policy, opt, rollout: Rollout, last_value):
    gain = rollout.advantages(last_value)
    target = gain + rollout.value
    logits, value = policy(rollout.seen)
    logp = logits.log_softmax(-1)
    taken = logp.gather(-1, rollout.action.unsqueeze(-1)).squeeze(-1)
    entropy = -(logp.exp() * logp).sum(-1).mean()
    norm = (gain - gain.mean()) / (gain.std() + 1e-6)
    loss = -(norm * taken).mean() + 0.5 * F.mse_loss(value, target) - 0.01 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()


def main(steps: int = 200):
    torch.manual_seed(77)
    cfg = CityConfig()
    city = SignalGrid(cfg, torch.Generator().manual_seed(78))
    policy, rollout = SignalPolicy(cfg), Rollout(cfg)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr, fused=True)
    for step in range(steps):
        t = step % cfg.horizon
        rollout.seen[t] = city.observe()
        with torch.no_grad():
            logits, rollout.value[t] = policy(rollout.seen[t])
            gumbel = -torch.empty_like(logits).exponential_().log()
            rollout.action[t] = (logits + gumbel).argmax(-1)
            rollout.reward[t] = city.advance(rollout.action[t])
        if t == cfg.horizon - 1:
            with torch.no_grad():
                _, last = policy(city.observe())
            learn(policy, opt, rollout, last)
        if step % 100 == 99:
            print(f"minute {step + 1}: mean queue {city.queue.mean().item():.2f}")


if __name__ == "__main__":
    main()
