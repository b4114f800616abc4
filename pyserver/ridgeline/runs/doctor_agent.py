"""Answers ``ridgeline doctor``'s questions in the user's interpreter: one JSON object on standard output.

Imports torch and, where it is installed, triton; records one small operation to see whether the profiler works.
"""

import json
import os
import sys
import sysconfig


def main() -> None:
    """Never raises for what is missing: an absent thing is a fact like any other."""
    if sys.path and os.path.basename(sys.path[0]) == "runs":
        sys.path[0] = os.getcwd()  # Our own folder is no place for the user's imports.
    facts = {
        "python": sys.version.split()[0],
        "version": list(sys.version_info[:3]),
        "executable": sys.executable,
        "include": sysconfig.get_paths().get("include"),
    }
    _torch(facts)
    try:
        import triton

        facts["triton"] = triton.__version__
    except ImportError as error:
        facts["triton_error"] = str(error)
    print(json.dumps(facts))


def _torch(facts: dict) -> None:  # type: ignore[type-arg]
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library that does not load
        facts["torch_error"] = f"{type(error).__name__}: {error}".splitlines()[0]
        return
    facts["torch"] = torch.__version__
    release = str(torch.__version__).split("+")[0].split(".")
    facts["torch_version"] = [int(part) for part in release[:2] if part.isdigit()]
    facts["torch_cuda"] = torch.version.cuda or torch.version.hip
    try:
        facts["devices"] = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
        if not facts["devices"] and facts["torch_cuda"]:
            torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        facts["cuda_error"] = str(error).splitlines()[0]
    try:
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        facts["inductor_cache"] = default_cache_dir()
    except ImportError:
        facts["inductor_cache"] = None
    if facts.get("devices"):
        _cupti(facts, torch)


def _cupti(facts: dict, torch) -> None:  # type: ignore[type-arg, no-untyped-def]
    try:
        from torch.profiler import ProfilerActivity, profile

        operand = torch.ones(1024, device="cuda")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            operand = operand * 2
            torch.cuda.synchronize()
        facts["cupti"] = any(e.device_type == torch.autograd.DeviceType.CUDA for e in recorded.events())
    except RuntimeError as error:
        facts["cupti_error"] = str(error).splitlines()[0]


if __name__ == "__main__":
    main()
