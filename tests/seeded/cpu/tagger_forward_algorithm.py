"""The partition function of a tagger, word by word."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, words: int, width: int, tags: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.emit = nn.Linear(width, tags)
        self.transition = nn.Parameter(torch.zeros(tags, tags))

    def partition(self, scores: torch.Tensor) -> torch.Tensor:
        alpha = scores[:, 0]
        for t in range(1, scores.size(1)):
            alpha = torch.logsumexp(alpha[:, :, None] + self.transition, dim=1) + scores[:, t]  # finds: small-kernels
        return torch.logsumexp(alpha, dim=1)

    def forward(self, ids: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        scores = self.emit(self.embed(ids))
        gold = scores.gather(2, tags[:, :, None]).sum((1, 2)) + self.transition[tags[:, :-1], tags[:, 1:]].sum(1)
        return (self.partition(scores) - gold).mean()


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Tagger(1000, 64, 12)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    ids, tags = torch.randint(1000, (16, 64)), torch.randint(12, (16, 64))
    for _ in range(steps):
        loss = model(ids, tags)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
