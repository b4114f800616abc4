import os
import sys

print("torch imported before:", "torch" in sys.modules)
os.environ["OMP_NUM_THREADS"] = "1"
import torch  # noqa: E402

print("threads", torch.get_num_threads())
from small import train  # noqa: E402

train()
