import os

from small import train

train()
print("bye", flush=True)
os._exit(4)
