"""What torch and the system say of the devices, the CPU and the global settings. Read only; initializes nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def devices(torch: Any, wanted: str = "auto") -> list[dict[str, Any]]:
    """One row a CUDA device that this process uses; empty where CUDA was not initialized."""
    cuda = getattr(torch, "cuda", None)
    if wanted == "cpu" or cuda is None or not cuda.is_initialized():
        return []
    rows = []
    for index in range(cuda.device_count()):
        properties = cuda.get_device_properties(index)
        row: dict[str, Any] = {"index": index, "name": properties.name, "kind": "rocm" if torch.version.hip else "cuda"}
        row["capability"] = [properties.major, properties.minor]
        for key, attribute in (
            ("total_memory", "total_memory"),
            ("multi_processor_count", "multi_processor_count"),
            ("l2_cache_size", "L2_cache_size"),
            ("max_threads_per_multi_processor", "max_threads_per_multi_processor"),
            ("warp_size", "warp_size"),
            ("regs_per_multiprocessor", "regs_per_multiprocessor"),
            ("shared_memory_per_multiprocessor", "shared_memory_per_multiprocessor"),
            ("shared_memory_per_block_optin", "shared_memory_per_block_optin"),
            ("clock_rate_khz", "clock_rate"),
            ("memory_clock_rate_khz", "memory_clock_rate"),
            ("memory_bus_width", "memory_bus_width"),
            ("uuid", "uuid"),
            ("pci_bus_id", "pci_bus_id"),
        ):
            value = getattr(properties, attribute, None)
            row[key] = value if value is None or isinstance(value, (int, float)) else str(value)
        row["memory"] = _memory(cuda, index)
        rows.append(row)
    return rows


def _memory(cuda: Any, index: int) -> dict[str, int]:
    """What the caching allocator counted since the process began; empty for an allocator that does not count."""
    try:
        counted = cuda.memory_stats(index)
    except (RuntimeError, AttributeError):
        return {}
    return {
        key: int(counted[name])
        for key, name in (
            ("peak_allocated", "allocated_bytes.all.peak"),
            ("peak_reserved", "reserved_bytes.all.peak"),
            ("retries", "num_alloc_retries"),
            ("out_of_memory", "num_ooms"),
        )
        if name in counted
    }


def cpu(torch: Any) -> dict[str, Any]:
    """threads, interop_threads, cores, model, capability."""
    backends = getattr(torch.backends, "cpu", None)
    return {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "model": _cpu_model(),
        "capability": backends.get_cpu_capability() if backends is not None else None,
    }


def faults() -> int:
    """Pages that this process was given so far without reading them from anywhere; 0 where the system does not tell."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource is not None else 0


def scheduled() -> tuple[int, int] | None:
    """Nanoseconds that this process' threads have run, and that they were ready to and had no core; Linux only."""
    ran = waited = 0
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
                numbers = file.read().split()
            ran, waited = ran + int(numbers[0]), waited + int(numbers[1])
    except (OSError, ValueError, IndexError):
        return None
    return ran, waited


def awake() -> int | None:
    """Nanoseconds that the process' first thread has run or been ready to; Linux only."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/schedstat", encoding="ascii") as file:
            numbers = file.read().split()
        return int(numbers[0]) + int(numbers[1])
    except (OSError, ValueError, IndexError):
        return None


def _cpu_model() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux: the platform module's word has to do
    return platform.processor() or None


def settings(torch: Any) -> dict[str, Any]:
    """Global flags that a finding may read; a flag that this torch lacks is left out."""
    found: dict[str, Any] = {}
    readers: dict[str, Callable[[], Any]] = {
        "float32_matmul_precision": lambda: torch.get_float32_matmul_precision(),
        "deterministic": lambda: torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": lambda: torch.backends.cudnn.benchmark,
        "cudnn_deterministic": lambda: torch.backends.cudnn.deterministic,
        "anomaly_detection": lambda: torch.is_anomaly_enabled(),
        "default_dtype": lambda: str(torch.get_default_dtype()),
        "flash_sdp": lambda: torch.backends.cuda.flash_sdp_enabled(),
        "cuda_version": lambda: torch.version.cuda,
        "hip_version": lambda: torch.version.hip,
    }
    for name, read in readers.items():
        try:
            found[name] = read()
        except (AttributeError, RuntimeError):
            continue
    # Reading allow_tf32 after the program used the newer fp32_precision interface raises; it follows from the precision.
    precision = found.get("float32_matmul_precision")
    if precision is not None:
        found["allow_tf32"] = precision != "highest"
    return found


def rank() -> tuple[int | None, int | None]:
    """(rank, world size) as torchrun's environment gives them."""
    values = []
    for name in ("RANK", "WORLD_SIZE"):
        text = os.environ.get(name, "")
        values.append(int(text) if text.isdigit() else None)
    return values[0], values[1]
