"""A run from its configuration: model, optimizer and schedule are looked up by name."""
import torch
from torch import nn

CONFIG = {
    "width": 64,
    "depth": 40,
    "optimizer": {"name": "Adam", "args": {"lr": 3e-4, "weight_decay": 0.01}},
    # mend: "optimizer": {"name": "Adam", "args": {"lr": 3e-4, "weight_decay": 0.01, "fused": True}},
    "schedule": {"name": "CosineAnnealingLR", "args": {"T_max": 1000}},
}


class Highway(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        g = torch.sigmoid(self.gate(x))
        return g * torch.relu(self.value(x)) + (1 - g) * x


class Runner:
    def __init__(self, config):
        self.model = nn.Sequential(nn.Linear(30, config["width"]), *[Highway(config["width"]) for _ in range(config["depth"])])
        self.head = nn.Linear(config["width"], 3)
        params = [*self.model.parameters(), *self.head.parameters()]
        self.opt = getattr(torch.optim, config["optimizer"]["name"])(params, **config["optimizer"]["args"])
        self.schedule = getattr(torch.optim.lr_scheduler, config["schedule"]["name"])(self.opt, **config["schedule"]["args"])

    def fit(self, steps):
        for _ in range(steps):
            self.model.train()
            x, y = torch.randn(128, 30), torch.randint(3, (128,))
            self.opt.zero_grad()
            nn.functional.cross_entropy(self.head(self.model(x)), y).backward()
            self.opt.step()  # finds: single-tensor-optimizer
            self.schedule.step()


def main(steps=40):
    torch.manual_seed(0)
    Runner(CONFIG).fit(steps)


if __name__ == "__main__":
    main()
