"""Two lines in one kernel and, after a graph break, one of its own: the least that caches and edits can get wrong."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def two(x):
    a = x.sin()  #= sin
    y = a * x.cos()  #= cos
    torch._dynamo.graph_break()
    return y.atan()  #= atan


def main(steps=60):
    x = torch.rand(128, 128, device=DEVICE)
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device=DEVICE))], lr=0.1)
    compiled = torch.compile(two)
    for _ in range(steps):
        compiled(x)
        opt.step()


if __name__ == "__main__":
    main()
