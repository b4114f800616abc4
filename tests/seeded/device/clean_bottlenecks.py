"""Bottleneck blocks, eager: autocast, channels_last, no bias before the norms, metrics that stay on the device."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


def unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, inner: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.squeeze, self.middle, self.expand = unit(inputs, inner, 1), unit(inner, inner, 3, stride), unit(inner, outputs, 1)
        self.short = unit(inputs, outputs, 1, stride) if inputs != outputs or stride != 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.middle(F.relu(self.squeeze(x), inplace=True)), inplace=True)
        return F.relu(self.expand(y) + self.short(x), inplace=True)


class Network(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(8, 64, 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        stages = [(64, 64, 256, 1), (256, 64, 256, 1), (256, 128, 512, 2), (512, 128, 512, 1), (512, 256, 1024, 2)]
        self.stages = nn.Sequential(*[Bottleneck(*stage) for stage in stages])
        self.head = nn.Linear(1024, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


class Accuracy:
    """Summed where it arises, read once at the end."""

    def __init__(self) -> None:
        self.right = torch.zeros((), device=device, dtype=torch.int64)
        self.seen = 0

    def update(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        self.right += (logits.argmax(-1) == labels).sum()
        self.seen += labels.numel()


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Network().to(device, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10_000)
    accuracy = Accuracy()
    images = torch.randn(192, 8, 224, 224, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (192,), device=device)
    for _ in range(steps):
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(images)
            loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        accuracy.update(logits.detach(), labels)
    print(f"{int(accuracy.right)} of {accuracy.seen}")


if __name__ == "__main__":
    main()
