"""Stands in for the analysis in tests of the supervisor."""

import json
import os
import sys
import time

RUN_DIR = sys.argv[-1]
MODE = sys.argv[1] if len(sys.argv) > 2 else ""
if MODE == "fail":
    print("the trace is damaged at byte 7", file=sys.stderr)
    sys.exit(2)
if MODE == "slow":
    time.sleep(60)
with open(os.path.join(RUN_DIR, "sidecar.json"), encoding="utf-8") as source:
    status = json.load(source).get("exit_status")
document = {
    "schema": 1,
    "source": {"kind": "run", "path": "x", "steps": 3, "exit_status": status},
    "totals": {"wall_us": 3000.0},
    "devices": [{"name": "a device"}],
    "files": [
        {"path": os.path.join(RUN_DIR, "model.py"), "kind": "user"},
        {"path": "/site-packages/lib.py", "kind": "library"},
    ],
    "lines": [],
}
temporary = os.path.join(RUN_DIR, ".profile.json")
with open(temporary, "w", encoding="utf-8") as out:
    json.dump(document, out)
os.replace(temporary, os.path.join(RUN_DIR, "profile.json"))
