"""An update of proximal policy optimisation, compiled, float32 with TF32 products: values and advantages of a rollout
of thousands of environments, then shuffled minibatches with a clipped ratio, a clipped value loss and the entropy of a
categorical policy, gradients clipped by norm, fused Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

STEPS, ENVIRONMENTS, SEEN, WIDTH, ACTIONS, MINIBATCHES = 16, 6144, 256, 512, 32, 3
DISCOUNT, SMOOTHING, CLIP = 0.99, 0.95, 0.2


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(SEEN, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.policy, self.critic = nn.Linear(WIDTH, ACTIONS), nn.Linear(WIDTH, 1)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.trunk(seen)
        return self.policy(x), self.critic(x)[..., 0]


def advantages(reward: torch.Tensor, done: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Generalised advantage estimation; ``value`` has one step more than ``reward``."""
    keep, last, out = 1 - done, torch.zeros_like(reward[0]), []
    for t in reversed(range(STEPS)):
        delta = reward[t] + DISCOUNT * value[t + 1] * keep[t] - value[t]
        last = delta + DISCOUNT * SMOOTHING * keep[t] * last
        out.append(last)
    return torch.stack(out[::-1])


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    agent = Agent().cuda()
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5, fused=True)
    seen = torch.randn(STEPS + 1, ENVIRONMENTS, SEEN, device="cuda")
    action = torch.randint(0, ACTIONS, (STEPS, ENVIRONMENTS), device="cuda")
    reward = torch.randn(STEPS, ENVIRONMENTS, device="cuda")
    done = (torch.rand(STEPS, ENVIRONMENTS, device="cuda") < 0.02).float()

    @torch.compile
    @torch.no_grad()
    def look() -> list[torch.Tensor]:
        logits, value = agent(seen)
        old = Categorical(logits=logits[:-1], validate_args=False).log_prob(action)
        advantage = advantages(reward, done, value)
        gain = advantage + value[:-1]
        return [x.flatten() for x in (old, value[:-1], advantage, gain)]

    @torch.compile
    def loss(index: torch.Tensor, rollout: list[torch.Tensor]) -> torch.Tensor:
        old, before, advantage, gain = (x[index] for x in rollout)
        logits, value = agent(seen[:-1].flatten(0, 1)[index])
        policy = Categorical(logits=logits, validate_args=False)
        ratio = (policy.log_prob(action.flatten()[index]) - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gained = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        near = before + (value - before).clamp(-CLIP, CLIP)
        missed = torch.maximum(F.mse_loss(value, gain, reduction="none"), (near - gain).square()).mean()
        return 0.5 * missed - gained - 0.01 * policy.entropy().mean()

    def step() -> None:
        rollout = look()
        for index in torch.randperm(STEPS * ENVIRONMENTS, device="cuda").chunk(MINIBATCHES):
            loss(index, rollout).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return step
