"""Peaks of devices: the vendors' figures by family, and the :class:`DeviceSpec` that the models use.

All rates are dense: the vendors' sparse figures are twice as high and never used. A device is found by the start of its
name. Where SMs are fewer than the family's (MIG slices, cut-down parts) rates scale with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ridgeline.profile import DeviceKind
from ridgeline.roofline.inputs import DeviceSpec

T = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasheet:
    bandwidth_gb_s: float
    flops: Mapping[str, float]
    """TFLOP/s, dense."""
    clock_ghz: float | None = None
    """Highest clock of the multiprocessors."""
    rated_ghz: float | None = None
    """Clock at which the FLOP/s are stated, where it differs."""
    sm_count: int | None = None
    l2_mb: float | None = None
    capability: tuple[int, int] | None = None
    source: str


HOPPER = {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9, "fp64": 66.9, "fp8": 1978.9, "int8": 1978.9}
AMPERE = {"bf16": 312.0, "fp16": 312.0, "tf32": 156.0, "fp32": 19.5, "fp64": 19.5, "int8": 624.0}
MI300 = {"bf16": 1307.4, "fp16": 1307.4, "tf32": 653.7, "fp32": 163.4, "fp64": 163.4, "fp8": 2614.9, "int8": 2614.9}
H = "NVIDIA H100 Tensor Core GPU datasheet"
A = "NVIDIA A100 Tensor Core GPU datasheet"
TABLE: dict[str, Datasheet] = {
    "H200": Datasheet(bandwidth_gb_s=4800, flops=HOPPER, clock_ghz=1.965, rated_ghz=1.83, sm_count=132, l2_mb=50, capability=(9, 0), source="NVIDIA H200 Tensor Core GPU datasheet"),
    "GH200": Datasheet(bandwidth_gb_s=4000, flops=HOPPER, clock_ghz=1.965, rated_ghz=1.83, sm_count=132, l2_mb=50, capability=(9, 0), source="NVIDIA GH200 Grace Hopper Superchip datasheet"),
    "H100 PCIe": Datasheet(bandwidth_gb_s=2000, flops={"bf16": 756, "fp16": 756, "tf32": 378, "fp32": 51, "fp64": 51, "fp8": 1513, "int8": 1513}, clock_ghz=1.755, sm_count=114, l2_mb=50, capability=(9, 0), source=H),
    "H100 NVL": Datasheet(bandwidth_gb_s=3900, flops={"bf16": 835, "fp16": 835, "tf32": 417.5, "fp32": 60, "fp64": 60, "fp8": 1671, "int8": 1671}, clock_ghz=1.785, sm_count=132, l2_mb=50, capability=(9, 0), source=H),
    "H100": Datasheet(bandwidth_gb_s=3350, flops=HOPPER, clock_ghz=1.965, rated_ghz=1.83, sm_count=132, l2_mb=50, capability=(9, 0), source=H),
    "H800": Datasheet(bandwidth_gb_s=3350, flops={**HOPPER, "fp64": 1.0}, clock_ghz=1.965, rated_ghz=1.83, sm_count=132, l2_mb=50, capability=(9, 0), source=H),
    "H20": Datasheet(bandwidth_gb_s=4000, flops={"bf16": 148, "fp16": 148, "tf32": 74, "fp32": 44, "fp64": 1, "fp8": 296, "int8": 296}, clock_ghz=1.98, sm_count=78, l2_mb=60, capability=(9, 0), source="NVIDIA H20 product brief"),
    "B200": Datasheet(bandwidth_gb_s=8000, flops={"bf16": 2250, "fp16": 2250, "tf32": 1125, "fp32": 75, "fp64": 37, "fp8": 4500, "int8": 4500}, clock_ghz=1.965, sm_count=148, l2_mb=126, capability=(10, 0), source="NVIDIA Blackwell datasheet (HGX B200)"),
    "GB200": Datasheet(bandwidth_gb_s=8000, flops={"bf16": 2500, "fp16": 2500, "tf32": 1250, "fp32": 80, "fp64": 40, "fp8": 5000, "int8": 5000}, clock_ghz=1.965, sm_count=152, l2_mb=126, capability=(10, 0), source="NVIDIA GB200 NVL72 datasheet"),
    "A100-SXM4-40GB": Datasheet(bandwidth_gb_s=1555, flops=AMPERE, clock_ghz=1.41, sm_count=108, l2_mb=40, capability=(8, 0), source=A),
    "A100-PCIE-40GB": Datasheet(bandwidth_gb_s=1555, flops=AMPERE, clock_ghz=1.41, sm_count=108, l2_mb=40, capability=(8, 0), source=A),
    "A100 80GB PCIe": Datasheet(bandwidth_gb_s=1935, flops=AMPERE, clock_ghz=1.41, sm_count=108, l2_mb=40, capability=(8, 0), source=A),
    "A100": Datasheet(bandwidth_gb_s=2039, flops=AMPERE, clock_ghz=1.41, sm_count=108, l2_mb=40, capability=(8, 0), source=A),
    "A800": Datasheet(bandwidth_gb_s=2039, flops=AMPERE, clock_ghz=1.41, sm_count=108, l2_mb=40, capability=(8, 0), source=A),
    "A30": Datasheet(bandwidth_gb_s=933, flops={"bf16": 165, "fp16": 165, "tf32": 82, "fp32": 10.3, "fp64": 10.3, "int8": 330}, clock_ghz=1.44, sm_count=56, l2_mb=24, capability=(8, 0), source="NVIDIA A30 datasheet"),
    "A10G": Datasheet(bandwidth_gb_s=600, flops={"bf16": 70, "fp16": 70, "tf32": 35, "fp32": 35, "int8": 140}, clock_ghz=1.71, sm_count=80, l2_mb=6, capability=(8, 6), source="NVIDIA A10G datasheet"),
    "A10": Datasheet(bandwidth_gb_s=600, flops={"bf16": 125, "fp16": 125, "tf32": 62.5, "fp32": 31.2, "int8": 250}, clock_ghz=1.695, sm_count=72, l2_mb=6, capability=(8, 6), source="NVIDIA A10 datasheet"),
    "A40": Datasheet(bandwidth_gb_s=696, flops={"bf16": 149.7, "fp16": 149.7, "tf32": 74.8, "fp32": 37.4, "int8": 299.3}, clock_ghz=1.74, sm_count=84, l2_mb=6, capability=(8, 6), source="NVIDIA A40 datasheet"),
    "RTX A6000": Datasheet(bandwidth_gb_s=768, flops={"bf16": 154.8, "fp16": 154.8, "tf32": 77.4, "fp32": 38.7, "int8": 309.7}, clock_ghz=1.8, sm_count=84, l2_mb=6, capability=(8, 6), source="NVIDIA RTX A6000 datasheet"),
    "L40S": Datasheet(bandwidth_gb_s=864, flops={"bf16": 362, "fp16": 362, "tf32": 183, "fp32": 91.6, "fp8": 733, "int8": 733}, clock_ghz=2.52, sm_count=142, l2_mb=96, capability=(8, 9), source="NVIDIA L40S datasheet"),
    "L40": Datasheet(bandwidth_gb_s=864, flops={"bf16": 181, "fp16": 181, "tf32": 90.5, "fp32": 90.5, "fp8": 362, "int8": 362}, clock_ghz=2.49, sm_count=142, l2_mb=96, capability=(8, 9), source="NVIDIA L40 datasheet"),
    "L4": Datasheet(bandwidth_gb_s=300, flops={"bf16": 121, "fp16": 121, "tf32": 60, "fp32": 30.3, "fp8": 242.5, "int8": 242.5}, clock_ghz=2.04, sm_count=58, l2_mb=48, capability=(8, 9), source="NVIDIA L4 datasheet"),
    "Tesla V100-PCIE": Datasheet(bandwidth_gb_s=900, flops={"fp16": 112, "fp32": 14, "fp64": 7}, clock_ghz=1.38, sm_count=80, l2_mb=6, capability=(7, 0), source="NVIDIA V100 datasheet"),
    "Tesla V100": Datasheet(bandwidth_gb_s=900, flops={"fp16": 125, "fp32": 15.7, "fp64": 7.8}, clock_ghz=1.53, sm_count=80, l2_mb=6, capability=(7, 0), source="NVIDIA V100 datasheet"),
    "Tesla T4": Datasheet(bandwidth_gb_s=320, flops={"fp16": 65, "fp32": 8.1, "int8": 130}, clock_ghz=1.59, sm_count=40, l2_mb=4, capability=(7, 5), source="NVIDIA T4 datasheet"),
    "GeForce RTX 5090": Datasheet(bandwidth_gb_s=1792, flops={"bf16": 209.5, "fp16": 209.5, "tf32": 104.8, "fp32": 104.8, "fp8": 419, "int8": 838}, clock_ghz=2.41, sm_count=170, l2_mb=96, capability=(12, 0), source="NVIDIA RTX Blackwell GPU architecture paper"),
    "GeForce RTX 4090": Datasheet(bandwidth_gb_s=1008, flops={"bf16": 165.2, "fp16": 165.2, "tf32": 82.6, "fp32": 82.6, "fp8": 330.3, "int8": 660.6}, clock_ghz=2.52, sm_count=128, l2_mb=72, capability=(8, 9), source="NVIDIA Ada GPU architecture paper"),
    "GeForce RTX 3090": Datasheet(bandwidth_gb_s=936, flops={"bf16": 71, "fp16": 71, "tf32": 35.6, "fp32": 35.6, "int8": 284}, clock_ghz=1.695, sm_count=82, l2_mb=6, capability=(8, 6), source="NVIDIA Ampere GA102 GPU architecture paper"),
    "GeForce RTX 5080": Datasheet(bandwidth_gb_s=960, flops={"bf16": 112.6, "fp16": 112.6, "tf32": 56.3, "fp32": 56.3, "fp8": 225.1, "int8": 450.2}, clock_ghz=2.617, sm_count=84, l2_mb=64, capability=(12, 0), source="NVIDIA RTX Blackwell GPU architecture paper"),
    "GeForce RTX 4080": Datasheet(bandwidth_gb_s=716.8, flops={"bf16": 97.5, "fp16": 97.5, "tf32": 48.7, "fp32": 48.7, "fp8": 194.9, "int8": 389.9}, clock_ghz=2.505, sm_count=76, l2_mb=64, capability=(8, 9), source="NVIDIA Ada GPU architecture paper"),
    "GeForce RTX 3080 Ti": Datasheet(bandwidth_gb_s=912, flops={"bf16": 68.2, "fp16": 68.2, "tf32": 34.1, "fp32": 34.1, "int8": 272.8}, clock_ghz=1.665, sm_count=80, l2_mb=6, capability=(8, 6), source="NVIDIA Ampere GA102 GPU architecture paper"),
    "GeForce RTX 3080": Datasheet(bandwidth_gb_s=760, flops={"bf16": 59.5, "fp16": 59.5, "tf32": 29.8, "fp32": 29.8, "int8": 238}, clock_ghz=1.71, sm_count=68, l2_mb=5, capability=(8, 6), source="NVIDIA Ampere GA102 GPU architecture paper"),
    "RTX 6000 Ada Generation": Datasheet(bandwidth_gb_s=960, flops={"bf16": 364.2, "fp16": 364.2, "tf32": 182.1, "fp32": 91.1, "fp8": 728.5, "int8": 728.5}, clock_ghz=2.505, sm_count=142, l2_mb=96, capability=(8, 9), source="NVIDIA RTX 6000 Ada Generation datasheet"),
    "AMD Instinct MI355X": Datasheet(bandwidth_gb_s=8000, flops={"bf16": 2516.6, "fp16": 2516.6, "fp32": 157.3, "fp64": 78.6, "fp8": 5033.2, "int8": 5033.2}, l2_mb=256, source="AMD Instinct MI355X datasheet"),
    "AMD Instinct MI350X": Datasheet(bandwidth_gb_s=8000, flops={"bf16": 2306.9, "fp16": 2306.9, "fp32": 144.2, "fp64": 72.1, "fp8": 4613.7, "int8": 4613.7}, l2_mb=256, source="AMD Instinct MI350X datasheet"),
    "AMD Instinct MI325X": Datasheet(bandwidth_gb_s=6000, flops=MI300, clock_ghz=2.1, sm_count=304, l2_mb=256, source="AMD Instinct MI325X datasheet"),
    "AMD Instinct MI300X": Datasheet(bandwidth_gb_s=5300, flops=MI300, clock_ghz=2.1, sm_count=304, l2_mb=256, source="AMD Instinct MI300X datasheet"),
    "AMD Instinct MI300A": Datasheet(bandwidth_gb_s=5300, flops={"bf16": 980.6, "fp16": 980.6, "tf32": 490.3, "fp32": 122.6, "fp64": 122.6, "fp8": 1961.2, "int8": 1961.2}, clock_ghz=2.1, sm_count=228, l2_mb=256, source="AMD Instinct MI300A datasheet"),
    "AMD Instinct MI250X": Datasheet(bandwidth_gb_s=1638, flops={"bf16": 191.5, "fp16": 191.5, "fp32": 23.9, "fp64": 23.9, "int8": 191.5}, clock_ghz=1.7, sm_count=110, l2_mb=8, source="AMD Instinct MI250X datasheet, one of its two dies"),
    "AMD Instinct MI210": Datasheet(bandwidth_gb_s=1638, flops={"bf16": 181, "fp16": 181, "fp32": 22.6, "fp64": 22.6, "int8": 181}, clock_ghz=1.7, sm_count=104, l2_mb=8, source="AMD Instinct MI210 datasheet"),
    "Intel(R) Data Center GPU Max 1550": Datasheet(bandwidth_gb_s=3276, flops={"bf16": 839, "fp16": 839, "tf32": 419, "fp32": 52.4, "fp64": 52.4, "int8": 1678}, l2_mb=408, source="Intel Data Center GPU Max 1550 product brief"),
    "Intel(R) Data Center GPU Max 1100": Datasheet(bandwidth_gb_s=1229, flops={"bf16": 352, "fp16": 352, "tf32": 176, "fp32": 22.2, "fp64": 22.2, "int8": 704}, l2_mb=108, source="Intel Data Center GPU Max 1100 product brief"),
    "Intel(R) Arc(TM) B580": Datasheet(bandwidth_gb_s=456, flops={"fp16": 116.7, "bf16": 116.7, "fp32": 14.6, "int8": 233}, l2_mb=18, source="Intel Arc B580 specifications"),
}  # fmt: skip
MAKERS = ("NVIDIA ", "Nvidia ")


def datasheet(name: str) -> Datasheet | None:
    """The family's figures: the longest key that the name (less its maker) starts with."""
    for maker in MAKERS:
        name = name.removeprefix(maker)
    found = [k for k in TABLE if name.lower().startswith(k.lower()) and not name[len(k) : len(k) + 1].isdigit()]
    return TABLE[max(found, key=len)] if found else None


def ridge_points(bandwidth_gb_s: float | None, flops: Mapping[str, float]) -> dict[str, float]:
    """FLOP per byte at which each type's rate and the bandwidth meet; ``flops`` in FLOP/s, bandwidth decimal GB/s."""
    return {t: rate / (bandwidth_gb_s * 1e9) for t, rate in flops.items()} if bandwidth_gb_s else {}


def device_spec(
    name: str,
    kind: DeviceKind,
    properties: Mapping[str, Any] | None = None,
    measured: Mapping[str, Any] | None = None,
    observed_flops: Mapping[str, float] | None = None,
    observed_gb_s: float | None = None,
    threads: int | None = None,
) -> DeviceSpec:
    """The device of a trace.

    ``properties``: an entry of the trace's ``deviceProperties``, or what torch says of the device (numSms or
    multi_processor_count, computeMajor/computeMinor or capability, totalGlobalMem, l2_bytes or l2_cache_size).
    ``measured``: what :mod:`ridgeline.roofline.measure` printed for this device. A rate is then the best of what was
    measured, what was observed in the program and the datasheet's figure at the device's clock; bandwidth the best that
    was measured or observed. Without it the datasheet's figures stand, and without a datasheet nothing does.
    """
    given = dict(properties or {})
    sheet = datasheet(name) if kind != "cpu" else None
    sm_count = _first(given, "numSms", "multi_processor_count", "sm_count") or (sheet.sm_count if sheet else None)
    capability = given.get("capability") or _pair(given.get("computeMajor"), given.get("computeMinor"))
    capability = capability or (sheet.capability if sheet and kind == "cuda" else None)
    clocks = dict((measured or {}).get("clocks_mhz") or {})
    clock = clocks.get("clocks.max.sm") or clocks.get("clocks.sm")
    clock_hz = sheet.clock_ghz * 1e9 if sheet and sheet.clock_ghz else clock * 1e6 if clock else None
    flops: dict[str, float] = {}
    bandwidth: float | None = None
    pins: float | None = None
    if sheet:
        share = 1.0
        if sm_count and sheet.sm_count and sm_count < sheet.sm_count:
            share = sm_count / sheet.sm_count
        flops = {t: rate * T * share for t, rate in sheet.flops.items()}
        pins = bandwidth = sheet.bandwidth_gb_s * (share if "MIG" in name else 1.0)
    if measured and measured.get("flops"):
        rated = (sheet.rated_ghz or sheet.clock_ghz) if sheet else None
        scale = clock / 1e3 / rated if clock and rated else 1.0
        best = {t: rate * min(1.0, scale) for t, rate in flops.items()}
        for kind_of, rate in dict(measured["flops"]).items():
            best[kind_of] = max(best.get(kind_of, 0.0), float(rate))
        flops = best
    if measured and measured.get("bandwidth_gb_s"):
        bandwidth = max(float(v) for v in dict(measured["bandwidth_gb_s"]).values())
    for kind_of, rate in (observed_flops or {}).items():
        flops[kind_of] = max(flops.get(kind_of, 0.0), rate)
    if observed_gb_s and bandwidth and measured:
        bandwidth = max(bandwidth, observed_gb_s)
    # torch reports 60 MB on an H200, whose kernels see 50: the datasheet first
    l2 = (
        int(sheet.l2_mb * 1e6) if sheet and sheet.l2_mb else _first(given, "l2_bytes", "l2_cache_size", "L2_cache_size")
    )
    return DeviceSpec(
        name=name,
        kind=kind,
        sm_count=sm_count,
        clock_hz=clock_hz,
        l2_bytes=l2,
        bandwidth_gb_s=bandwidth,
        flops=flops,
        peaks_source="measured" if measured and measured.get("flops") else "datasheet" if sheet else "unknown",
        launch_latency_us=(measured or {}).get("launch_latency_us"),
        threads=threads or (measured or {}).get("threads"),
        properties={
            "capability": capability,
            "pin_gb_s": pins or bandwidth,
            "datasheet": sheet.source if sheet else None,
            "memory_bytes": given.get("totalGlobalMem") or given.get("total_memory"),
        },
    )


def _first(values: Mapping[str, Any], *names: str) -> int | None:
    return next((int(values[n]) for n in names if isinstance(values.get(n), (int, float))), None)


def _pair(major: Any, minor: Any) -> tuple[int, int] | None:
    return (int(major), int(minor)) if isinstance(major, int) and isinstance(minor, int) else None
