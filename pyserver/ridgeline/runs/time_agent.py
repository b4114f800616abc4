"""Times one statement in the user's interpreter: ``python time_agent.py REQUEST.json RESULT.json``. Imports torch alone.

The measurement is :meth:`torch.utils.benchmark.Timer.blocked_autorange`: blocks of a length that drowns the clock's own
error, after a warm-up, with device synchronization for CUDA. Started by ``ridgeline time``.
"""

import json
import os
import sys


def main() -> int:
    """0 with a result; 1 with an ``error`` in the result (no torch, or the statement raises)."""
    request_path, result_path = sys.argv[1:3]
    sys.path[0] = os.getcwd()  # As ``python -c`` does; our own folder is no place for the user's imports.
    with open(request_path, encoding="utf-8") as source:
        request = json.load(source)
    if request.get("output") == "stderr":
        os.dup2(2, 1)
    result = _measure(request)
    with open(result_path, "w", encoding="utf-8") as out:
        json.dump(result, out)
    return 1 if "error" in result else 0


def _measure(request: dict) -> dict:  # type: ignore[type-arg]
    try:
        import torch
        from torch.utils import benchmark
    except ImportError as error:
        return {"error": "no-torch", "message": str(error)}
    try:
        timer = benchmark.Timer(
            stmt=request["statement"],
            setup=request["setup"],
            num_threads=request["threads"],
            # The names that nearly every statement means; the setup may bind them anew.
            globals={"torch": torch, "nn": torch.nn, "F": torch.nn.functional},
        )
        measured = timer.blocked_autorange(min_run_time=request["min_run_time"])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is the answer
        return {"error": "raised", "message": f"{type(error).__name__}: {error}"}
    return {
        "times_s": list(measured.times),
        "calls_per_block": measured.number_per_run,
        "threads": measured.num_threads,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu",
    }


if __name__ == "__main__":
    sys.exit(main())
