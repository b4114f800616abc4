"""Which devices a trace speaks of, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ridgeline.trace.tables import DeviceInfo

_NAMES = (
    (re.compile(r"AMD|Instinct|Radeon|\bgfx\d", re.IGNORECASE), "rocm"),
    (re.compile(r"Intel|\bXe\b|Data Center GPU Max|Arc\b|\bXPU\b"), "xpu"),
    (re.compile(r"MTIA"), "mtia"),
    (re.compile(r"Ascend|\bNPU\b|Gaudi|\bHPU\b", re.IGNORECASE), "npu"),
    (re.compile(r"NVIDIA|Tesla|GeForce|Quadro|TITAN", re.IGNORECASE), "cuda"),
)
_METADATA = (
    (("hip_runtime_version", "hip_driver_version", "roctracer_version", "rocprofiler_version"), "rocm"),
    (("cuda_runtime_version", "cuda_driver_version", "cupti_version"), "cuda"),
)
_CATEGORIES = (("mtia_", "mtia"), ("xpu_", "xpu"), ("hpu_op", "npu"), ("privateuse1_", "npu"), ("hip_", "rocm"))
_CALLS = (("hip", "rocm"), ("ur", "xpu"), ("ze", "xpu"), ("cuda", "cuda"), ("cu", "cuda"))


def describe(
    used: Iterable[int],
    metadata: dict[str, Any],
    categories: Iterable[str],
    call_names: Iterable[str],
    labels: dict[int, str],
    *,
    accelerator: bool,
) -> list[DeviceInfo]:
    """One entry a device with work, in order of id; the CPU alone where no accelerator appears.

    ``labels`` are the process labels of the trace, by process id. A device whose properties are missing is named by
    its label.
    """
    properties: dict[int, dict[str, Any]] = {}
    listed = metadata.get("deviceProperties")
    if isinstance(listed, list):
        for row in listed:
            if isinstance(row, dict) and type(row.get("id")) is int:
                properties[row["id"]] = row
    models = {str(row.get("name") or "") for row in properties.values()}
    # Kineto lists the devices that this process can see, by local number; a lone model is every device's.
    common = next(iter(properties.values())) if len(models) == 1 else {}
    if not accelerator:
        return [DeviceInfo(id=0, name="CPU", kind="cpu")]
    # Launches without a device record: there is one, though all that is known of it is its name.
    used = set(used) or {min(properties, default=0)}
    fallback = _kind_of_trace(metadata, list(categories), list(call_names))
    out = []
    for number in sorted(used):
        own = properties.get(number, common)
        name = own.get("name")
        name = name if isinstance(name, str) else ""
        kind = _first_match(name) or fallback or _first_match(labels.get(number, "")) or "cuda"
        label = labels.get(number, "")
        out.append(DeviceInfo(id=number, name=name or _fallback_name(label, number, kind), kind=kind, properties=own))
    return out


def _fallback_name(label: str, number: int, kind: str) -> str:
    return label if re.fullmatch(r"[A-Za-z]+ \d+", label) else f"{kind} device {number}"


def _first_match(name: str) -> str | None:
    return next((kind for pattern, kind in _NAMES if pattern.search(name)), None)


def _kind_of_trace(metadata: dict[str, Any], categories: list[str], call_names: list[str]) -> str | None:
    for prefix, kind in _CATEGORIES:
        if any(category.startswith(prefix) for category in categories):
            return kind
    for keys, kind in _METADATA:
        if any(key in metadata for key in keys):
            return kind
    for prefix, kind in _CALLS:
        if any(re.match(prefix + "[A-Z]|" + prefix + "da[A-Z]", name) for name in call_names):
            return kind
    return None
