import sys

from small import train

train()
sys.exit("it did not converge")
