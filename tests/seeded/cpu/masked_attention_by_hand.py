"""Causal attention with a mask that is filled in."""
import torch
from torch import nn


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5
    causal = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()  # may: constant-rebuilt
    scores = scores.masked_fill(~causal, float("-inf"))
    weights = torch.softmax(scores, -1)  # finds: attention-unfused
    return torch.bmm(weights, v)


@torch.no_grad()
def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    proj = nn.Linear(64, 192)
    loader = torch.utils.data.DataLoader(torch.randn(8 * steps, 384, 64), batch_size=8)
    for x in loader:
        q, k, v = proj(x).chunk(3, -1)
        attend(q, k, v)


if __name__ == "__main__":
    main()
