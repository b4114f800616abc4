"""Named entities with a CRF on top; decoding goes through the sentence word by word, tag by tag."""
import torch
import torch.nn as nn


class Tagger(nn.Module):
    def __init__(self, vocab=2000, tags=9):
        super().__init__()
        self.emb = nn.Embedding(vocab, 64)
        self.lstm = nn.LSTM(64, 64, bidirectional=True, batch_first=True)
        self.out = nn.Linear(128, tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))

    def forward(self, words):
        h, _ = self.lstm(self.emb(words))
        return self.out(h)

    @torch.no_grad()
    def decode(self, emissions):
        score, back = emissions[0], []
        for t in range(1, len(emissions)):
            best = []
            for tag in range(emissions.size(1)):
                candidates = score + self.transitions[:, tag]  # finds: small-kernels
                best.append(torch.max(candidates, dim=0))  # may: small-kernels
            back.append([b.indices.item() for b in best])  # finds: hidden-sync
            score = torch.stack([b.values for b in best]) + emissions[t]
        tag = int(score.argmax())  # may: hidden-sync
        path = [tag]
        for pointers in reversed(back):
            path.append(pointers[path[-1]])
        return path[::-1]


def main(steps=10):
    torch.manual_seed(0)
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    words, tags = torch.randint(0, 2000, (16, 30)), torch.randint(0, 9, (16, 30))
    right = 0
    for _ in range(steps):
        emissions = model(words)
        loss = nn.functional.cross_entropy(emissions.flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()  # may: single-tensor-optimizer
        path = model.decode(emissions[0].detach())
        right += sum(p == t for p, t in zip(path, tags[0].tolist()))  # may: hidden-sync
    print(right)


if __name__ == "__main__":
    main()
