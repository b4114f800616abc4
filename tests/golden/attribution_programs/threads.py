"""Two threads, each with lines of its own."""

import threading

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def first(x, steps):
    for _ in range(steps):
        x.sin()  #= sin
        x.cosh()  #= cosh


def second(x, steps):
    for _ in range(steps):
        x.tanh()  #= tanh
        (x @ x).sum()  #= mm sum


def main(steps=120):
    x = torch.rand(256, 256, device=DEVICE)
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device=DEVICE))], lr=0.1)
    for _ in range(steps):
        worker = threading.Thread(target=first, args=(x, 4))
        worker.start()
        second(x, 4)
        worker.join()
        opt.step()


if __name__ == "__main__":
    main()
