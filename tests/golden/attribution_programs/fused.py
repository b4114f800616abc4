"""Compiled code: three lines in one kernel, one kernel launched from three places, a graph break, a recompile."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def three(x):
    a = x.sin()  #= sin
    b = a * x.cos()  #= cos
    return b.tanh()  #= tanh


def places(x, w):
    x = (x @ w).erf()  #= erf:1 mm:1
    x = (x @ w).erf()  #= erf:2 mm:2
    return (x @ w).erf()  #= erf:3 mm:3


def broken(x):
    y = x.asinh()  #= asinh
    torch._dynamo.graph_break()
    return y.atan()  #= atan


def sized(x):
    return x.expm1().sum()  #= expm1


def main(steps=120):
    torch.manual_seed(0)
    x, w = torch.rand(128, 128, device=DEVICE), torch.rand(128, 128, device=DEVICE)
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device=DEVICE))], lr=0.1)
    c_three, c_places, c_broken = torch.compile(three), torch.compile(places), torch.compile(broken)
    c_sized = torch.compile(sized, dynamic=False)
    c_dynamic = torch.compile(lambda t: t.log1p() * 2, dynamic=True)  #= log1p
    for _ in range(steps):
        c_three(x)
        c_places(x, w)
        c_broken(x)
        c_sized(x)
        c_sized(x[:64])
        c_dynamic(x)
        c_dynamic(x[:32])
        opt.step()


if __name__ == "__main__":
    main()
