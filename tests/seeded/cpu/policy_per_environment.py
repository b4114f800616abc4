"""An agent that asks its policy once for every environment."""
import torch
from torch import nn


class Environments:
    def __init__(self, count: int) -> None:
        self.state = torch.randn(count, 16)

    def step(self, actions: list[int]) -> torch.Tensor:
        self.state = torch.tanh(self.state + 0.1 * torch.tensor(actions)[:, None])
        return -self.state.square().mean(1)


def act(policy: nn.Module, states: torch.Tensor) -> list[int]:
    actions = []
    with torch.no_grad():
        for i in range(states.size(0)):
            scores = policy(states[i])  # finds: small-kernels
            actions.append(int(scores.argmax()))  # finds: hidden-sync
    return actions


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    opt = torch.optim.AdamW(policy.parameters(), lr=3e-4, fused=True)
    environments = Environments(64)
    for _ in range(steps):
        states = environments.state
        actions = act(policy, states)
        rewards = environments.step(actions)
        chosen = policy(states).log_softmax(1).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
        loss = -(chosen * (rewards - rewards.mean())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
