"""Nearest neighbours by chunks of the library."""
import torch


@torch.inference_mode()
def search(queries: torch.Tensor, library: torch.Tensor, k: int, chunk: int) -> torch.Tensor:
    best, index = torch.full((len(queries), k), -torch.inf), torch.zeros(len(queries), k, dtype=torch.long)
    for lo in range(0, len(library), chunk):
        scores = queries @ library[lo : lo + chunk].t()
        value, at = scores.topk(k)
        best, pick = torch.cat([best, value], 1).topk(k)
        index = torch.cat([index, at + lo], 1).gather(1, pick)
    return index


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    library = torch.nn.functional.normalize(torch.randn(8192, 64), dim=1)
    queries = torch.nn.functional.normalize(torch.randn(128, 64), dim=1)
    for _ in range(steps):
        with torch.profiler.record_function("query"):
            search(queries, library, 10, 2048)


if __name__ == "__main__":
    main()
