"""Rewards are kept as Python floats while playing."""
import torch
from torch import nn


class Game:
    def __init__(self) -> None:
        self.state = torch.zeros(64)

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.state = torch.tanh(self.state + 0.1 * action)
        return self.state, -self.state.square().sum()


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    game, score = Game(), 0.0
    net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    state = game.state
    for _ in range(steps):
        action = net(state)
        loss = action.square().mean() - (state * action).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state, reward = game.step(action.detach())
        score += reward.item()  # finds: hidden-sync
    print(score)


if __name__ == "__main__":
    main()
