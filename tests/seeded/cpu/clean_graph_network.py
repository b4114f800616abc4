"""A graph network: messages along edges, added up with index_add_."""
import torch
from torch import nn


class Convolution(nn.Module):
    def __init__(self, inp: int, out: int) -> None:
        super().__init__()
        self.own, self.message = nn.Linear(inp, out), nn.Linear(2 * inp, out)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, degree: torch.Tensor) -> torch.Tensor:
        src, dst = edges
        message = torch.relu(self.message(torch.cat([x[src], x[dst]], dim=1)))
        total = torch.zeros(x.size(0), message.size(1)).index_add_(0, dst, message)
        return self.own(x) + total / degree[:, None]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Convolution(32, 64), Convolution(64, 64), Convolution(64, 64)])
        self.out = nn.Linear(64, 7)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, degree: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x, edges, degree))
        return self.out(x)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    nodes = 600
    edges = torch.randint(nodes, (2, 5000))
    degree = torch.bincount(edges[1], minlength=nodes).clamp(min=1).float()
    x, y = torch.randn(nodes, 32), torch.randint(7, (nodes,))
    labelled = torch.rand(nodes) < 0.5
    chosen = labelled.nonzero().squeeze(1)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, fused=True)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x, edges, degree)[chosen], y[chosen])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
