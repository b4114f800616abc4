"""A small encoder whose launches are replayed as one graph, over a batch that is worth it."""
import torch
from torch import nn

device = "cuda"


@torch.inference_mode()
def main(steps: int = 3000) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).to(device, torch.bfloat16).eval()
    x = torch.randn(64, 256, 512, device=device, dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x)
    for _ in range(steps):
        graph.replay()
    print(tuple(out.shape))


if __name__ == "__main__":
    main()
