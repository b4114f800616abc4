"""Accuracy computed with NumPy after every step."""
import numpy as np
import torch
from torch import nn

device = "cuda"


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    scores = logits.double().cpu().numpy()  # finds: host-round-trip
    # mend: hits = logits.argmax(-1) == torch.from_numpy(labels).to(logits.device, non_blocking=True)
    return float(np.mean(scores.argmax(-1) == labels))
    # mend: return hits.float().mean() if labels is not None else np.nan


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 16384), nn.ReLU(), nn.Linear(16384, 1000)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    x = torch.randn(16384, 2048, device=device, dtype=torch.bfloat16)
    y = torch.randint(1000, (16384,), device=device)
    host_labels = y.cpu().numpy()
    for _ in range(steps):
        out = model(x)
        loss = nn.functional.cross_entropy(out.float(), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        accuracy(out.detach(), host_labels)


if __name__ == "__main__":
    main()
