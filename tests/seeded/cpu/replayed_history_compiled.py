"""Self-play ratings: a compiled loss over the list of past opponents, which grows by one every round."""
import torch
from torch import nn


@torch.compile
def loss_against(scores, past):
    total = scores.square().mean()
    for old in past:  # finds: recompile
        total = total + torch.relu(1.0 - (scores - old)).mean() / len(past)
    return total


def main(steps=14):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 16))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    past = [torch.zeros(32, 16)]
    for _ in range(steps):  # may: compile-in-window
        scores = net(torch.randn(32, 64))
        loss = loss_against(scores, past)
        opt.zero_grad()
        loss.backward()
        opt.step()
        past.append(scores.detach())


if __name__ == "__main__":
    main()
