"""Skip-gram with negative samples, drawn as tensors."""
import torch
from torch import nn


class SkipGram(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Embedding(words, width), nn.Embedding(words, width)

    def forward(self, centre: torch.Tensor, context: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        v = self.inner(centre)
        good = (v * self.outer(context)).sum(-1)
        bad = torch.bmm(self.outer(noise), v.unsqueeze(2)).squeeze(2)
        return -(nn.functional.logsigmoid(good) + nn.functional.logsigmoid(-bad).sum(1)).mean()


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = SkipGram(4000, 64)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    pairs = torch.randint(4000, (2, 50_000))
    for step in range(steps):
        lo = step * 512 % 49_000
        centre, context = pairs[:, lo : lo + 512]
        loss = model(centre, context, torch.randint(4000, (512, 8)))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
