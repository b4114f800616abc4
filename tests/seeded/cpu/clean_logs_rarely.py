"""The loss is added up in a tensor and read every fifteen steps."""
import torch
from torch import nn


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    x, y = torch.randn(256, 256), torch.randint(10, (256,))
    running = torch.zeros(())
    for step in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        running += loss.detach()
        if step % 15 == 14:
            print(step, running.item() / 15)
            running.zero_()


if __name__ == "__main__":
    main()
