import os
import sys

sys.path.append(os.path.dirname(sys.path[0]))
from small import train

print(__name__, repr(__package__), sys.argv[1:], os.path.basename(sys.path[0]))
train(40)
