"""Compiled forward and backward of a user's model and of a library's."""

import sys

import torch
from fakelib.model import Library

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Mine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(96, 96)

    def forward(self, x):
        x = self.fc(x)  #= addmm mm
        x = x.sin()  #= sin
        x = x.sum(-1, keepdim=True) * x
        return torch.tanh(x)  #= tanh


def main(which, steps=120):
    torch.manual_seed(0)
    model = (Mine() if which == "mine" else Library()).to(DEVICE)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    fwd = torch.compile(model)
    x = torch.rand(256, 96, device=DEVICE)
    for _ in range(steps):
        y = fwd(x)  #= region
        y.sum().backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main(sys.argv[1])
