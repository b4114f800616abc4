"""Its file and a module's are edited while they run, the folder that it works in is deleted, and it does as it likes with sys.argv."""

import os
import sys
import tempfile
from pathlib import Path

from small import make, step

HELPER = Path(__file__).with_name("small.py")
HELPER.write_text("# a line more\n" + HELPER.read_text())
text = Path(__file__).read_text()
Path(__file__).write_text("# edited\n" * 100)
try:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
    sys.argv = None
    model, optimizer = make()
    for _ in range(40):
        loss = step(model, optimizer)
        loss = model(optimizer.param_groups[0]["params"][0][:32]).sum()  # the line that ran
finally:
    Path(__file__).write_text(text)
print("done")
