"""Advantage actor-critic over short rollouts."""
import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.policy, self.value = nn.Linear(256, 6), nn.Linear(256, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.body(x)
        return self.policy(h), self.value(h).squeeze(-1)


def returns(rewards: torch.Tensor, last: torch.Tensor, gamma: float = 0.99) -> torch.Tensor:
    out, running = [], last
    for t in reversed(range(rewards.size(0))):
        running = rewards[t] + gamma * running
        out.append(running)
    return torch.stack(out[::-1])


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    net = ActorCritic()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4, fused=True)
    state = torch.randn(128, 32)
    for _ in range(steps):
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for _ in range(8):
                logits, _ = net(state)
                action = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
                states.append(state)
                actions.append(action)
                state = torch.tanh(state + 0.05 * action[:, None].float())
                rewards.append(-state.abs().mean(1))
            last = net(state)[1]
        logits, values = net(torch.cat(states))
        goal = returns(torch.stack(rewards), last).flatten()
        chosen = logits.log_softmax(-1).gather(1, torch.cat(actions)[:, None]).squeeze(1)
        advantage = (goal - values).detach()
        loss = -(chosen * advantage).mean() + 0.5 * nn.functional.mse_loss(values, goal)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()


if __name__ == "__main__":
    main()
