"""Encoder and decoder of GRUs with the true words as input."""
import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.src, self.tgt = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder, self.decoder = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.attend, self.out = nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, state = self.encoder(self.src(source))
        y, _ = self.decoder(self.tgt(target), state)
        context = nn.functional.scaled_dot_product_attention(y, memory, memory)  # may: attention-unfused
        return self.out(torch.tanh(self.attend(torch.cat([y, context], -1))))


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = Translator(800, 96)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
    source, target = torch.randint(800, (32, 20)), torch.randint(800, (32, 21))
    seen = torch.zeros(())
    for _ in range(steps):
        logits = model(source, target[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        opt.step()
        opt.zero_grad()
        schedule.step()
        seen += loss.detach()
    print(seen.item() / steps)


if __name__ == "__main__":
    main()
