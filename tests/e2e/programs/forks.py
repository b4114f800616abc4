import os

from small import train

train(20)
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    os._exit(0)
print("waited", os.waitpid(pid, 0)[1], flush=True)
train(20)
