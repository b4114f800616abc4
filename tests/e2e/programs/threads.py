import threading

from small import train


def work():
    train(30)
    print("thread done")


threading.Thread(target=work).start()
print("main falls off its end")
