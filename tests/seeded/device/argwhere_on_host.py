"""Positions of a mask found with NumPy: a float64 copy to the host and back."""
import numpy as np
import torch
from torch import nn

device = "cuda"


def positions(mask: torch.Tensor) -> torch.Tensor:
    host = mask.double().cpu().numpy()  # finds: host-round-trip
    # mend: host = mask > 0.5
    return torch.from_numpy(np.argwhere(host > 0.5)).to(device)  # may: pageable-copy
    # mend: return torch.nonzero(host)


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(8, 64, 3, padding=1).to(device)
    head = nn.Conv2d(64, 1, 3, padding=1).to(device)
    opt = torch.optim.SGD([*conv.parameters(), *head.parameters()], lr=1e-3)
    x = torch.randn(32, 8, 256, 256, device=device)
    for _ in range(steps):
        score = torch.sigmoid(head(torch.relu(conv(x))))  # may: channels-last
        found = positions(score.detach())
        loss = score[found[:, 0], found[:, 1], found[:, 2], found[:, 3]].mean() + score.mean()
        loss.backward()  # may: channels-last
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
