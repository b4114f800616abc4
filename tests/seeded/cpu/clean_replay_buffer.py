"""Deep Q-learning over a batch of environments, with the replay memory in tensors."""
import torch
from torch import nn


class Replay:
    def __init__(self, size: int, width: int) -> None:
        self.size, self.at, self.full = size, 0, 0
        self.states, self.following = torch.zeros(size, width), torch.zeros(size, width)
        self.actions = torch.zeros(size, dtype=torch.long)
        self.rewards, self.ended = torch.zeros(size), torch.zeros(size)

    def push(self, s: torch.Tensor, a: torch.Tensor, r: torch.Tensor, n: torch.Tensor, d: torch.Tensor) -> None:
        rows = slice(self.at, self.at + len(s))
        self.states[rows], self.actions[rows], self.rewards[rows] = s, a, r
        self.following[rows], self.ended[rows] = n, d
        self.at = (self.at + len(s)) % self.size
        self.full = min(self.size, self.full + len(s))

    def sample(self, count: int) -> tuple[torch.Tensor, ...]:
        index = torch.randint(self.full, (count,))
        return self.states[index], self.actions[index], self.rewards[index], self.following[index], self.ended[index]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 6))


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    policy, target = network(), network()
    target.load_state_dict(policy.state_dict())
    mine, theirs = list(policy.parameters()), list(target.parameters())
    opt = torch.optim.AdamW(policy.parameters(), lr=3e-4, amsgrad=True, fused=True)
    memory = Replay(8192, 24)
    state = torch.randn(64, 24)
    for _ in range(steps):
        with torch.no_grad():
            greedy = policy(state).argmax(1)
        action = torch.where(torch.rand(64) < 0.05, torch.randint(6, (64,)), greedy)
        following = torch.tanh(state + 0.1 * action[:, None].float())
        memory.push(state, action, -following.square().mean(1), following, torch.zeros(64))
        state = following
        s, a, r, n, d = memory.sample(512)
        with torch.no_grad():
            goal = r + 0.99 * (1 - d) * target(n).amax(1)
        loss = nn.functional.smooth_l1_loss(policy(s).gather(1, a[:, None]).squeeze(1), goal)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100.0)
        opt.step()
        torch._foreach_lerp_([p.data for p in theirs], [p.data for p in mine], 0.005)


if __name__ == "__main__":
    main()
