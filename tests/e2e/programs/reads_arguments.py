import argparse

from small import train

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
train(parser.parse_args().steps)
print("done")
