"""A compiled linear layer whose bias has the output's own shape."""
import torch

device = "cuda"


def layer(bias: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return bias + x @ w  # finds: bias-copy


@torch.inference_mode()
def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(layer)
    bias = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    x = torch.randn(8192, 512, device=device, dtype=torch.bfloat16)
    w = torch.randn(512, 8192, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        out = compiled(bias, x, w)
    print(out.shape)


if __name__ == "__main__":
    main()
