"""Stands in for the analysis in tests of the supervisor."""

import json
import os
import sys
import time
from pathlib import Path

from ridgeline import profile_io
from ridgeline.profile import Device, File, Op, ProfileDocument, Source, Totals

RUN_DIR = sys.argv[-1]
MODE = sys.argv[1] if len(sys.argv) > 2 else ""
if MODE == "fail":
    print("the trace is damaged at byte 7", file=sys.stderr)
    sys.exit(2)
if MODE == "slow":
    time.sleep(60)
with open(os.path.join(RUN_DIR, "sidecar.json"), encoding="utf-8") as source:
    status = json.load(source).get("exit_status")
document = ProfileDocument(
    source=Source(kind="run", path="x", steps=3, exit_status=status),
    totals=Totals(wall_us=3000.0),
    ops=[] if MODE == "empty" else [Op(name="aten::mm", count=1, self_cpu_us=1.0, cpu_us=1.0)],
    devices=[Device(id=0, name="a device", kind="cpu")],
    files=[
        File(path=os.path.join(RUN_DIR, "model.py"), kind="user"),
        File(path="/site-packages/lib.py", kind="library"),
    ],
)
profile_io.write(document, Path(RUN_DIR) / "profile.json")
