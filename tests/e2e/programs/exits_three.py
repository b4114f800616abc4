import sys

from small import train

train()
print("leaving")
sys.exit(3)
