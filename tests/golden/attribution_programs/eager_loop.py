"""An eager training loop. ``#= op`` names the forward op that only this line runs; ``#~ op`` one of the optimizer or data."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(192, 192))
        self.b = torch.nn.Parameter(torch.randn(192, 192))

    def forward(self, x):
        h = x @ self.a  #= mm
        h = torch.sin(h)  #= sin
        h = h.cosh()  #= cosh
        h = self.inner(h)
        return torch.bmm(h[None], self.b[None])[0]  #= bmm

    def inner(self, h):
        h = torch.nn.functional.silu(
            h
        )
        return torch.tanh(h)  #= tanh


def halve(x, depth):
    if depth == 0:
        return x.expm1()  #= expm1
    return halve(x, depth - 1).atan()  #= atan


def main(steps=120):
    torch.manual_seed(0)
    net = Net().to(DEVICE)
    opt = torch.optim.SGD(net.parameters(), lr=1e-6)
    for _ in range(steps):
        x = torch.rand(192, 192, device=DEVICE)  #= rand
        y = net(x)
        y = halve(y, 3)
        loss = y.logsumexp(0).sum()  #= logsumexp
        loss.backward()
        opt.step()  #~ _foreach_add_ add_
        opt.zero_grad()


if __name__ == "__main__":
    main()
