"""Truncated backpropagation through an LSTM, its state carried over and detached."""
import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, tokens: int = 256, width: int = 128) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(tokens, width)
        self.rnn = nn.LSTM(width, width, 2, dropout=0.2, batch_first=True)
        self.decoder = nn.Linear(width, tokens)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]):
        out, state = self.rnn(self.drop(self.encoder(x)), state)
        return self.decoder(self.drop(out)), state


def repackage(state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(s.detach() for s in state)


def main(steps: int = 40) -> None:
    torch.manual_seed(1111)
    bptt, batch = 35, 20
    corpus = torch.randint(256, (batch, bptt * steps + 1))
    model = LanguageModel()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    state = (torch.zeros(2, batch, 128), torch.zeros(2, batch, 128))
    for step in range(steps):
        data = corpus[:, step * bptt : (step + 1) * bptt]
        target = corpus[:, step * bptt + 1 : (step + 1) * bptt + 1]
        state = repackage(state)
        logits, state = model(data, state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
