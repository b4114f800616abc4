"""What if: the step's time under a change that can be reckoned from the profile, with bounds and assumptions.

Standard library only apart from the vendors' figures in :mod:`ridgeline.roofline.peaks`. All times are microseconds a
step (a window, where steps are not known). ``estimate_us`` is None where only bounds can be given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ridgeline.profile import Device, Kernel, ProfileDocument
from ridgeline.roofline.peaks import TABLE, Datasheet, datasheet
from ridgeline.steps import undisturbed_us
from ridgeline.units import duration, percent

GRAPH_GAP_US = 1.0
"""Between two kernels of a CUDA graph: 0.98 µs on an H200 (266 gaps in 260 µs a step, encoder with CUDA graphs)."""
LAUNCH_LIMITED = 0.10
"""Part of the step that the device waits for launches, from which faster kernels may only wait longer."""
UNKNOWN = 0.10
"""Part of the kernels' time of which no bound is known, from which no estimate for another device is given."""
WEIGHT_BITS = 16
"""What weights are taken to have now."""
_RATE = {"tensor": "bf16", "issue": "fp32", "special_function": "fp32", "fp64": "fp64", None: "bf16"}
"""The rate that a compute-bound kernel's limiting unit scales with, by ``bound_resource``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    name: str
    label: str
    low_us: float
    """The step can hardly get shorter than this by the change alone,"""
    high_us: float
    """nor will it be longer."""
    estimate_us: float | None = None
    assumptions: list[str] = field(default_factory=list)


def step_us(document: ProfileDocument, device: Device) -> float | None:
    """The step as it takes without the profiler where that was measured, else the recorded one; the window where steps are unknown."""
    steps, totals = document.source.steps, document.totals
    if not steps:
        return device.window_us if device.window_us is not None else totals.wall_us
    whole = totals.wall_us if totals.wall_us is not None else device.window_us
    recorded = None if whole is None else whole / steps
    return undisturbed_us(recorded, totals.plain_step_us, on_cpu=device.kind == "cpu")


def outcomes(document: ProfileDocument) -> list[Outcome]:
    """Changes of the whole step, for the first device; empty where no wall time is known."""
    if not document.devices:
        return []
    device = document.devices[0]
    step = step_us(document, device)
    if step is None or device.kind == "cpu":
        return []
    kernels = [k for k in document.kernels if k.device == device.id and k.exposed_us is not None]
    steps = document.source.steps or 1
    found = [_no_gaps(document, kernels, step, steps)]
    found += [_weights(kernels, step, steps, bits) for bits in (8, 4)]
    here = datasheet(device.name)
    if here is not None:
        found += [
            _other(kernels, step, steps, here, sheet, name)
            for name, sheet in TABLE.items()
            if sheet is not here and sheet.bandwidth_gb_s
        ]
    return found


def twice_as_fast(document: ProfileDocument, kernel: Kernel) -> Outcome | None:
    """One kernel in half its time. Its exposed time E shrinks by at most min(E, half its total), at least by nothing."""
    device = next((d for d in document.devices if d.id == kernel.device), None)
    step = step_us(document, device) if device is not None else None
    if step is None or kernel.exposed_us is None:
        return None
    steps = document.source.steps or 1
    exposed, half = kernel.exposed_us / steps, kernel.total_us / steps / 2
    assumptions = ["the other kernels, the host and what overlaps stay as they are"]
    estimate: float | None = step - exposed / 2
    if document.idle.launch / steps > LAUNCH_LIMITED * step:
        estimate = None
        assumptions.append("the device waits for launches in this step: what is saved may turn into waiting")
    used = max(kernel.memory_pct or 0.0, kernel.compute_pct or 0.0)
    if used > 50:
        unit = "memory" if (kernel.memory_pct or 0.0) >= (kernel.compute_pct or 0.0) else "compute"
        assumptions.append(
            f"at ~{used:.0f} % of the {unit} roof twice as fast is possible only with less traffic or arithmetic"
        )
    return Outcome(
        name=f"kernel:{kernel.id}",
        label=f"{kernel.name} twice as fast",
        low_us=step - min(exposed, half),
        high_us=step,
        estimate_us=estimate,
        assumptions=assumptions,
    )


def _no_gaps(document: ProfileDocument, kernels: list[Kernel], step: float, steps: int) -> Outcome:
    gaps = document.idle.launch / steps
    launches = sum(k.count for k in kernels) / steps
    assumptions = [
        "the host launches ahead of the device all the time, as a CUDA graph does",
        f"estimate: {GRAPH_GAP_US:g} µs stays between two kernels, as measured within CUDA graphs on an H200",
    ]
    estimate: float | None = step - max(0.0, gaps - launches * GRAPH_GAP_US)
    if document.source.recorded_with.stacks:
        assumptions.append("recorded with stacks, which slow the host: part of these gaps is the profiler's")
        estimate = None
    return Outcome(
        name="no_gaps",
        label="no launch gaps",
        low_us=step - gaps,
        high_us=step,
        estimate_us=estimate,
        assumptions=assumptions,
    )


def _weights(kernels: list[Kernel], step: float, steps: int, bits: int) -> Outcome:
    """Matrix products that wait for DRAM get shorter by what their weights shrink, until arithmetic is the limit."""
    saved = unknown = 0.0
    bound = 0
    for kernel in kernels:
        waits = kernel.bound == "memory" and kernel.bound_resource in (None, "dram")
        if kernel.category != "gemm" or not (waits or kernel.bound == "unknown"):
            continue
        bound += 1
        time = (kernel.exposed_us or 0.0) / steps
        unknown += time if not waits else 0.0
        saved += time - max(time * bits / WEIGHT_BITS, time * (kernel.compute_pct or 0.0) / 100)
    assumptions = [
        f"weights have {WEIGHT_BITS} bits now, and kernels that read {bits}-bit ones lose nothing by unpacking",
        "lower bound: all that these matrix products move is weights; how much really is, a profile does not say",
        "for inference: training also needs gradients in full precision",
    ]
    if unknown:
        assumptions.append(
            f"lower bound: so do those whose bound is not known ({duration(unknown)}), as if they waited for DRAM"
        )
    if not bound:
        assumptions = ["no matrix product here is known to wait for DRAM: fewer bits of weights save no time"]
    return Outcome(
        name=f"int{bits}",
        label=f"int{bits} weights",
        low_us=step - saved,
        high_us=step,
        estimate_us=None if bound else step,
        assumptions=assumptions,
    )


def _other(kernels: list[Kernel], step: float, steps: int, here: Datasheet, there: Datasheet, name: str) -> Outcome:
    """Every kernel at the same part of the other device's roof as of this one's."""
    memory = here.bandwidth_gb_s / there.bandwidth_gb_s
    rates = {t: here.flops[t] / there.flops[t] for t in here.flops.keys() & there.flops.keys() if there.flops[t]}
    fallback = rates.get("bf16", rates.get("fp16", rates.get("fp32", 1.0)))
    ratios = [memory, *(rates[t] for t in ("bf16", "fp16", "fp32") if t in rates)]
    low = high = estimate = step
    busy = unknown = 0.0
    for kernel in kernels:
        time = (kernel.exposed_us or 0.0) / steps
        if kernel.category in ("memcpy", "communication"):
            continue  # the links between devices and to the host are not in the datasheets' table
        busy += time
        if kernel.category == "memset" or (kernel.bound == "memory" and kernel.bound_resource in (None, "dram")):
            factor, around = memory, [memory]
        elif kernel.bound == "compute":
            factor = rates.get(_RATE.get(kernel.bound_resource, "fp32"), fallback)
            around = [factor]
        else:
            factor, around = 1.0, [1.0, *ratios]
            unknown += time if kernel.bound == "unknown" else 0.0
        if kernel.borderline:
            around = [*around, *ratios]
        estimate += time * (factor - 1)
        low += time * (min(around) - 1)
        high += time * (max(around) - 1)
    return Outcome(
        name=f"gpu:{name}",
        label=name,
        low_us=low,
        high_us=high,
        estimate_us=estimate if unknown <= UNKNOWN * busy else None,
        assumptions=[
            *([f"the bound of {percent(100 * unknown / busy)} of the kernels' time is not known"] if unknown else []),
            "kernels reach the same part of the roof that they are bound by; latency-bound ones stay as they are",
            "idle time, copies to and from the host and communication stay as they are",
            f"roofs of both from the vendors' datasheets ({there.source}), dense rates",
        ],
    )
