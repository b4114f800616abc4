"""Q-learning on a pole that is simulated step by step: acting needs the action, and learning draws from a memory."""
import math
import random

import torch
from torch import nn


class Pole:
    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        return list(self.state)

    def step(self, action):
        x, v, a, w = self.state
        force = 10.0 if action else -10.0
        push = (force + 0.05 * w * w * math.sin(a)) / 1.1
        acc = (9.8 * math.sin(a) - math.cos(a) * push) / (0.5 * (4 / 3 - 0.1 * math.cos(a) ** 2 / 1.1))
        self.state = [x + 0.02 * v, v + 0.02 * push, a + 0.02 * w, w + 0.02 * acc]
        fallen = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return list(self.state), 1.0, fallen


class Memory:
    def __init__(self, size=2000):
        self.s, self.n = torch.zeros(size, 4), torch.zeros(size, 4)
        self.a, self.r, self.d = torch.zeros(size, dtype=torch.long), torch.zeros(size), torch.zeros(size)
        self.size, self.filled = size, 0

    def add(self, s, a, r, n, d):
        i = self.filled % self.size
        self.s[i], self.n[i] = torch.tensor(s), torch.tensor(n)
        self.a[i], self.r[i], self.d[i] = a, r, float(d)
        self.filled += 1

    def draw(self, n):
        i = torch.randint(min(self.filled, self.size), (n,))
        return self.s[i], self.a[i], self.r[i], self.n[i], self.d[i]


def main(steps=120):
    random.seed(0)
    torch.manual_seed(0)
    q = nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    frozen = nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    frozen.load_state_dict(q.state_dict())
    opt = torch.optim.SGD(q.parameters(), lr=1e-3, fused=True)
    memory, pole = Memory(), Pole()
    s = pole.reset()
    for step in range(steps):
        with torch.no_grad():
            a = random.randrange(2) if random.random() < 0.1 else q(torch.tensor(s)).argmax().item()
        n, r, d = pole.step(a)
        memory.add(s, a, r, n, d)
        s = pole.reset() if d else n
        states, actions, rewards, after, done = memory.draw(256)
        with torch.no_grad():
            goal = rewards + 0.99 * (1 - done) * frozen(after).amax(1)
        loss = nn.functional.smooth_l1_loss(q(states).gather(1, actions[:, None]).squeeze(1), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 99:
            frozen.load_state_dict(q.state_dict())


if __name__ == "__main__":
    main()
