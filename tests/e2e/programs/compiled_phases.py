import torch
from small import make, step

model, optimizer = make()
compiled = torch.compile(model)
for i in range(40):
    step(compiled, optimizer, torch.ones(32 if i != 12 else 16, 64))
print("compiled")
