"""The smallest network there is, on exclusive or: every operation is overhead, and nothing is wrong with that."""
import torch
from torch import nn


class Xor(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(2, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


def main(steps=400):
    torch.manual_seed(1)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = Xor()
    opt = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, fused=True)
    for epoch in range(steps):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 100 == 0:
            print(epoch, loss.item())


if __name__ == "__main__":
    main()
