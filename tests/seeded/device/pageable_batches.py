"""Batches of images copied from ordinary memory, blocking."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 3, 224, 224), torch.randint(10, (256,)))
    loader = DataLoader(data, batch_size=64, num_workers=2, persistent_workers=True)
    # mend: loader = DataLoader(data, batch_size=64, num_workers=2, persistent_workers=True, pin_memory=True)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=4), nn.ReLU(), nn.Conv2d(64, 128, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    ).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    done = 0
    while done < steps:
        for x, y in loader:
            x = x.to(device)  # finds: pageable-copy
            # mend: x = x.to(device, non_blocking=True)
            y = y.to(device)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            done += 1
            if done == steps:
                break


if __name__ == "__main__":
    main()
