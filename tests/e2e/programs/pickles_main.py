import io

import torch
from small import train

import __main__


class Config:
    width = 3


buffer = io.BytesIO()
torch.save(Config(), buffer)
buffer.seek(0)
print(type(torch.load(buffer, weights_only=False)), __name__, __spec__, __main__.Config is Config)
print(__file__.endswith("pickles_main.py"))
train()
