"""What the roofline model is given for one kernel row, and what it answers. Plain data: no trace, no document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ridgeline.profile import Bound, BoundCause, BoundResource, Category, DeviceKind


@dataclass(slots=True, frozen=True, kw_only=True)
class DeviceSpec:
    """The device that recorded, and its peaks."""

    name: str
    kind: DeviceKind
    sm_count: int | None = None
    clock_hz: float | None = None
    l2_bytes: int | None = None
    bandwidth_gb_s: float | None = None
    flops: dict[str, float] = field(default_factory=dict)
    """FLOP/s, dense, by type."""
    peaks_source: str = "unknown"
    launch_latency_us: float | None = None
    threads: int | None = None
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True, kw_only=True)
class LaunchedArgument:
    name: str
    size: tuple[int, ...] | None = None
    """Of a tensor; None for all else."""
    stride: tuple[int, ...] | None = None
    """In elements."""
    type: str | None = None
    """Of a tensor, as torch names it (``bfloat16``); of a value that is a type: ``triton.language`` or ``torch``; ``unknown``
    for what could not be described."""
    value: Any = None
    block: tuple[int, ...] | None = None
    """Of a tensor descriptor made on the host: the tile that it loads."""
    same_as: str | None = None
    """The earlier argument that is the same tensor."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Launched:
    """A program's own Triton kernel as it was launched: what the agent saw of it."""

    text: str | None = None
    """A module with the kernel and the helpers and constants that it uses."""
    arguments: tuple[LaunchedArgument, ...] = ()
    """In the order of the signature, compile-time constants among them."""
    options: tuple[tuple[str, Any], ...] = ()
    """``num_warps``, ``num_stages``… where they were given."""

    def integer(self, option: str, default: int) -> int:
        value = dict(self.options).get(option)
        return value if isinstance(value, int) and not isinstance(value, bool) else default


@dataclass(slots=True, frozen=True, kw_only=True)
class KernelInput:
    name: str
    """Descriptive name (the launching op's for Triton)."""
    symbol: str
    """Name of the device event."""
    category: Category
    duration_us: float
    """Median."""
    count: int
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int | None = None
    shared_memory: int | None = None
    occupancy_pct: float | None = None
    warps_per_sm: float | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    kernel_kwargs: str | None = None
    """As in the trace: ``XBLOCK=2,R0_BLOCK=2048``."""
    kernel_source: str | None = None
    """Text of the single-kernel file, or of the definition in the wrapper."""
    cubin: str | None = None
    """Path of a captured cubin."""
    op_name: str | None = None
    op_chain: tuple[str, ...] = ()
    """Names of the enclosing ops, innermost first (aten::mm under aten::linear…)."""
    input_dims: list[Any] | None = None
    input_types: list[str] | None = None
    input_strides: list[Any] | None = None
    concrete_inputs: list[Any] | None = None
    num_gb: float | None = None
    kernel_flop: float | None = None
    copy_bytes: float | None = None
    """Of memcpy and memset rows."""
    best_config: dict[str, Any] | None = None
    """``<hash>.best_config`` beside the kernel file."""
    on_cpu: bool = False
    launched: Launched | None = None
    """Of a kernel that the program launches itself, where the agent saw with which arguments."""
    allocated: tuple[tuple[tuple[int, ...], str], ...] = ()
    """Shape and type (as torch names it) of the tensors allocated just before the launch; of kernels launched directly."""
    useful_rows_pct: float | None = None
    """Share of the batch's positions that are no padding, where sequence lengths were recorded."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Estimate:
    bytes: float | None = None
    dram_bytes: float | None = None
    """What of ``bytes`` passes the memory's pins while the kernel runs alone from a cold cache: reads in whole bursts, and the
    writes but for the last, which are still in the second-level cache when it ends (``limits.written_back``). This is what
    ``dram__bytes_read + dram__bytes_write`` count."""
    flops: float | None = None
    flop_type: str | None = None
    """Key in ``DeviceSpec.flops`` that the work uses."""
    arithmetic_intensity: float | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    bound: Bound = "unknown"
    borderline: bool = False
    resource: BoundResource | None = None
    cause: BoundCause | None = None
    reason: str | None = None
    """One sentence a person can act on."""
    confidence: float | None = None
    compute_pct: float | None = None
    memory_pct: float | None = None
    waves: float | None = None
    autotune_candidate: bool = False
    notes: tuple[str, ...] = ()
