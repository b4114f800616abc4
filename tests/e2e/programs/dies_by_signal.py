import os
import signal

from small import train

train()
os.kill(os.getpid(), signal.SIGTERM)
