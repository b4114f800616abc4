"""Accumulated gradients, with the loss read after every micro step."""
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, 192)
        layer = nn.TransformerEncoderLayer(192, 4, 768, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(192, 512, bias=False)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.blocks(self.embed(idx)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    data = torch.randint(512, (8, 8, 65))
    accumulation = 4
    for step in range(steps):
        lossf = 0.0
        for micro in range(accumulation):
            rows = data[(step + micro) % 8]
            loss = model(rows[:, :-1], rows[:, 1:]) / accumulation
            lossf += loss.item()  # finds: hidden-sync
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0:
            print(f"step {step}: {lossf:.3f}")


if __name__ == "__main__":
    main()
