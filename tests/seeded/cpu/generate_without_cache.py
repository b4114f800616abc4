"""Greedy decoding that computes the whole text for every token."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, 128)
        self.mix = nn.Linear(128, 128)
        self.head = nn.Linear(128, 512)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.embed(ids)  # may: token-decode
        h = h + torch.tanh(self.mix(h)).cumsum(1)
        return self.head(h[:, -1])


@torch.no_grad()
def main(steps: int = 120) -> None:
    torch.manual_seed(0)
    model = Model().eval()
    ids = torch.randint(512, (8, 64))
    for _ in range(steps):
        with torch.profiler.record_function("token"):
            logits = model(ids)  # finds: token-decode
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)


if __name__ == "__main__":
    main()
