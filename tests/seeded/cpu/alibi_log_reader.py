"""Server logs read by a transformer whose distance penalty (ALiBi) comes from a property of the block."""
import torch
import torch.nn.functional as F
from torch import nn


class Reader(nn.Module):
    def __init__(self, width=128, heads=8, window=384):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.register_buffer("slopes", 2.0 ** -torch.arange(1, heads + 1).float(), persistent=False)

    @property
    def penalty(self):
        place = torch.arange(self.window)
        away = (place[:, None] - place[None, :]).abs().float()  # finds: constant-rebuilt
        return -self.slopes.view(-1, 1, 1) * away.sqrt()  # may: constant-rebuilt
        # mend: return self.kept

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.penalty)  # may: attention-unfused
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


def main(steps=30):
    torch.manual_seed(0)
    words = nn.Embedding(2000, 128)
    body = nn.Sequential(*[Reader() for _ in range(3)])
    for block in body:
        place = torch.arange(384)
        block.register_buffer("kept", -block.slopes.view(-1, 1, 1) * (place[:, None] - place[None]).abs().float().sqrt())
    head = nn.Linear(128, 2)
    everything = [*words.parameters(), *body.parameters(), *head.parameters()]
    opt = torch.optim.SGD(everything, lr=0.01)
    for _ in range(steps):
        lines, odd = torch.randint(2000, (1, 384)), torch.randint(2, (1,))
        loss = F.cross_entropy(head(body(words(lines)).mean(1)), odd)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
