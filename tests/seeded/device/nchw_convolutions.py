"""A convolutional net in half precision, in the default memory format."""
import torch
from torch import nn

device = "cuda"


def block(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 128, 3, padding=1, bias=False), *[block(128) for _ in range(6)]).to(device, torch.float16)
    # mend: model = nn.Sequential(nn.Conv2d(16, 128, 3, padding=1, bias=False), *[block(128) for _ in range(6)]).to(device, torch.float16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(32, 16, 112, 112, device=device, dtype=torch.float16)
    # mend: x = torch.randn(32, 16, 112, 112, device=device, dtype=torch.float16).to(memory_format=torch.channels_last)
    for _ in range(steps):
        loss = model(x).float().mean()  # finds: channels-last
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
