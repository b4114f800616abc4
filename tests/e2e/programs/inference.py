import torch
from small import make

model, _ = make()
with torch.no_grad():
    for _ in range(300):
        y = model(torch.ones(32, 64))
print(f"{y.sum().item():.4f}")
