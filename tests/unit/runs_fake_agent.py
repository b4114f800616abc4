"""Stands in for the agent in tests of the supervisor: runs the target and records when the target says so.

No torch, so a run takes a tenth of a second. The target calls ``fake_agent.capture()`` to put a window on disk.
"""

import json
import os
import runpy
import sys
import time
import types

SPEC = json.load(open(sys.argv[1], encoding="utf-8"))  # noqa: SIM115
RUN_DIR = SPEC["run_dir"]
STARTED = time.monotonic()


def say(phase: str, message: str | None = None) -> None:
    line = {"t": time.time(), "phase": phase, "step": None, "elapsed_s": time.monotonic() - STARTED, "message": message}
    with open(os.path.join(RUN_DIR, "progress.jsonl"), "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def sidecar(**facts: object) -> None:
    with open(os.path.join(RUN_DIR, "sidecar.json"), "w", encoding="utf-8") as out:
        json.dump({"schema": 1, **facts}, out)


def capture() -> None:
    say("saving")
    with open(os.path.join(RUN_DIR, "trace.json.gz"), "wb") as out:
        out.write(b"a trace")
    sidecar()
    open(os.path.join(RUN_DIR, "captured"), "w").close()
    say("published")


module = types.ModuleType("fake_agent")
module.__dict__.update(capture=capture, say=say, RUN_DIR=RUN_DIR)
sys.modules["fake_agent"] = module
sys.argv = [SPEC["target"], *SPEC["args"]]
sys.path[0] = os.path.dirname(os.path.abspath(SPEC["target"]))
say("starting")
try:
    runpy.run_path(SPEC["target"], run_name="__main__")
finally:
    if os.path.exists(os.path.join(RUN_DIR, "captured")):
        sidecar(exit_status=0)  # As the agent does: the end of the program adds to what is known.
    say("done")
