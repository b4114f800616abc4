"""Decoding with a static cache, one graph a token: the weights are read once for each, which is all that bounds it."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
BATCH, ROOM, WIDTH, HEADS, DEPTH, VOCABULARY = 16, 512, 2048, 16, 12, 16_384


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(BATCH, HEADS, ROOM, WIDTH // HEADS), persistent=False)

    def forward(self, x: torch.Tensor, position: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(BATCH, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        x = x + self.out(y.view(BATCH, 1, WIDTH))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("token", torch.zeros(BATCH, 1, dtype=torch.int64))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("places", torch.arange(ROOM))

    def next(self) -> None:
        """Reads the token, writes the one after it, and goes on by one place."""
        seen = (self.places <= self.position).view(1, 1, 1, ROOM)
        x = self.embed(self.token)
        for layer in self.layers:
            x = layer(x, self.position, seen)
        self.token.copy_(self.head(self.norm(x)).argmax(-1))
        self.position.add_(1).remainder_(ROOM)


@torch.inference_mode()
def main(steps: int = 600) -> None:
    torch.manual_seed(0)
    with torch.device(device):
        decoder = Decoder().to(torch.bfloat16).eval()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            decoder.next()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder.next()
    for _ in range(steps):
        graph.replay()
    print(decoder.token.flatten().tolist())


if __name__ == "__main__":
    main()
