import os
import sys

from .helper import WORD

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from small import train

train()
print(WORD, __name__, __package__, __spec__.name, os.path.basename(sys.argv[0]), sys.argv[1:])
