from small import train

train(1)
print("short")
