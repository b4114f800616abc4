"""A mean teacher: the teacher's weights follow the student's, one entry of its state after another."""
import copy

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))


@torch.no_grad()
def update_teacher(student, teacher, decay=0.999):
    s = student.state_dict()
    for name, value in teacher.state_dict().items():
        value.copy_(value * decay + s[name] * (1.0 - decay))  # finds: small-kernels


def main(steps=40):
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(32, 64), *[Block(64) for _ in range(24)], nn.Linear(64, 10))
    teacher = copy.deepcopy(student)
    opt = torch.optim.SGD(student.parameters(), lr=0.01, fused=True)
    x, y = torch.randn(64, 32), torch.randint(0, 10, (64,))
    for _ in range(steps):
        out = student(x + 0.1 * torch.randn_like(x))
        with torch.no_grad():
            target = teacher(x)
        loss = nn.functional.cross_entropy(out, y) + (out - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_teacher(student, teacher)


if __name__ == "__main__":
    main()
