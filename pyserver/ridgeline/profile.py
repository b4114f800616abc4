"""The profile document, schema 1: the one thing that analysis writes and every view reads.

Standard library only, so that the language server can import it. Times are microseconds, sizes bytes, shares percent,
rates decimal (1 GB = 1e9 bytes). A value that could not be had is ``None``, never 0. Reading, writing and the JSON
Schema stand in :mod:`ridgeline.profile_io`; pandas tables for notebooks in :mod:`ridgeline.notebook`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ridgeline.profile_findings import CompileEvent as CompileEvent
from ridgeline.profile_findings import Finding as Finding
from ridgeline.profile_findings import Padding as Padding
from ridgeline.profile_findings import PaddingPlan as PaddingPlan
from ridgeline.vocabulary import CATEGORIES as CATEGORIES
from ridgeline.vocabulary import Bound as Bound
from ridgeline.vocabulary import BoundCause as BoundCause
from ridgeline.vocabulary import BoundResource as BoundResource
from ridgeline.vocabulary import Category as Category
from ridgeline.vocabulary import DeviceKind as DeviceKind
from ridgeline.vocabulary import Granularity as Granularity
from ridgeline.vocabulary import Severity as Severity

SCHEMA = 1


@dataclass(slots=True, kw_only=True)
class RecordedWith:
    stacks: bool | None = None
    shapes: bool | None = None
    memory: bool | None = None


@dataclass(slots=True, kw_only=True)
class Source:
    """Where the numbers come from."""

    kind: Literal["trace", "run", "module"]
    path: str
    created: str | None = None
    argv: list[str] | None = None
    exit_status: int | None = None
    torch: str | None = None
    python: str | None = None
    ranks: list[int] | None = None
    revision: str | None = None
    recorded_with: RecordedWith = field(default_factory=RecordedWith)
    steps: int | None = None
    profiler_overhead_pct: float | None = None
    other_processes_on_device: int | None = None
    cpu_wait_pct: float | None = None
    """Of the time in which the program's threads ran or were ready to: how much they had no core. None: not known."""


@dataclass(slots=True, kw_only=True)
class Totals:
    """Over the recorded window; ``plain_step_us`` was measured beside it, unprofiled."""

    wall_us: float | None = None
    self_cpu_us: float | None = None
    host_wait_us: float | None = None
    self_device_us: float | None = None
    compile_us: float | None = None
    warmup_us: float | None = None
    plain_step_us: float | None = None
    profiled_step_us: float | None = None


@dataclass(slots=True, kw_only=True)
class File:
    path: str
    root: str | None = None
    sha256: str | None = None
    snapshot: str | None = None
    kind: Literal["user", "library", "generated"] = "user"


@dataclass(slots=True, kw_only=True)
class QualityWarning:
    code: str
    message: str
    count: int = 1


@dataclass(slots=True, kw_only=True)
class Quality:
    """What the reader must know before trusting a number."""

    events: int = 0
    skipped: int = 0
    repaired: int = 0
    truncated: bool = False
    launches_without_kernel: int = 0
    kernels_without_launch: int = 0
    warnings: list[QualityWarning] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Peaks:
    source: Literal["measured", "datasheet", "unknown"] = "unknown"
    bandwidth_gb_s: float | None = None
    flops: dict[str, float] = field(default_factory=dict)
    """Dense rate in FLOP/s (not TFLOP/s) by type: bf16, fp16, tf32, fp32, fp64, fp8, int8."""
    ridge: dict[str, float] = field(default_factory=dict)
    """FLOP per byte at which the type's rate and the bandwidth meet."""


@dataclass(slots=True, kw_only=True)
class Device:
    id: int
    name: str
    kind: DeviceKind
    span_us: float | None = None
    busy_us: float | None = None
    idle_pct: float | None = None
    window_us: float | None = None
    window_idle_pct: float | None = None
    kernel_us: float | None = None
    memcpy_us: float | None = None
    memset_us: float | None = None
    communication_us: float | None = None
    exposed_copy_us: float | None = None
    exposed_communication_us: float | None = None
    underfilled_us: float | None = None
    streams: int | None = None
    clocks: dict[str, float] | None = None
    peaks: Peaks = field(default_factory=Peaks)


@dataclass(slots=True, kw_only=True)
class CategoryRow:
    device: int
    category: Category
    time_us: float
    share_pct: float
    count: int


@dataclass(slots=True, kw_only=True)
class OwnCategory:
    """Kernels that a person put together by patterns of their names; what fits none has no row."""

    name: str
    device: int
    time_us: float = 0.0
    share_pct: float | None = None
    count: int = 0
    kernels: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Launch:
    grid: list[int] | None = None
    block: list[int] | None = None
    registers: int | None = None
    shared_memory: int | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    config: str | None = None
    waves: float | None = None
    api: str | None = None


@dataclass(slots=True, kw_only=True)
class CallLine:
    line: int
    time_us: float
    count: int


@dataclass(slots=True, kw_only=True)
class GeneratedRef:
    """A place in generated code: a wrapper module (with the lines of the launches) or a single-kernel file."""

    file: str
    line: int | None = None
    call_lines: list[CallLine] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Frame:
    file: str
    line: int
    function: str | None = None


@dataclass(slots=True, kw_only=True)
class SourceRef:
    file: str
    line: int
    function: str | None = None
    text: str | None = None
    library: bool = False
    stack: list[Frame] = field(default_factory=list)
    """Outermost first."""
    method: str = "unknown"
    confidence: float = 0.0


@dataclass(slots=True, kw_only=True)
class Slice:
    ts_us: float
    """In the trace file's own time (what a timeline shows), not offset."""
    dur_us: float


@dataclass(slots=True, kw_only=True)
class Autotune:
    status: Literal["candidate", "verified", "no_gain"]
    best_us: float | None = None
    speedup: float | None = None
    config: str | None = None
    spread_pct: float | None = None
    compile_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Kernel:
    """One (device, symbol, generated file, grid, block, shapes); every launch belongs to exactly one."""

    id: str
    name: str
    symbol: str
    device: int
    category: Category
    count: int
    total_us: float
    min_us: float
    q1_us: float
    median_us: float
    q3_us: float
    max_us: float
    cov: float | None = None
    share_pct: float | None = None
    step_share_pct: float | None = None
    exposed_us: float | None = None
    bytes: float | None = None
    dram_bytes: float | None = None
    """What of ``bytes`` passes the device memory's pins, alone and from a cold cache: an estimate where nothing counted it."""
    flops: float | None = None
    arithmetic_intensity: float | None = None
    gb_per_s: float | None = None
    tflop_per_s: float | None = None
    bound: Bound = "unknown"
    borderline: bool = False
    bound_resource: BoundResource | None = None
    bound_cause: BoundCause | None = None
    bound_reason: str | None = None
    bound_confidence: float | None = None
    compute_pct: float | None = None
    memory_pct: float | None = None
    bound_source: Literal["estimated", "counters"] | None = None
    launch: Launch = field(default_factory=Launch)
    generated: list[GeneratedRef] = field(default_factory=list)
    aten: list[str] = field(default_factory=list)
    source: list[SourceRef] = field(default_factory=list)
    slice: Slice | None = None
    autotune: Autotune | None = None
    tuning: bool = False
    """Launches that an autotuner only measured: they have no share, and no category counts them."""


@dataclass(slots=True, kw_only=True)
class Phase:
    forward_us: float = 0.0
    backward_us: float = 0.0
    optimizer_us: float = 0.0


@dataclass(slots=True, kw_only=True)
class Phases:
    """All device time by what it was for, whether its line is known or not; ``unknown_us`` is the rest."""

    forward_us: float = 0.0
    backward_us: float = 0.0
    optimizer_us: float = 0.0
    unknown_us: float = 0.0


@dataclass(slots=True, kw_only=True)
class Line:
    file: str
    line: int
    text: str | None = None
    device_us: float = 0.0
    """This line's part when a launch is split equally over its distinct user statements: rows add up."""
    unsplit_us: float = 0.0
    """The whole time of all that touches the line: what views lead with."""
    share_pct: float | None = None
    step_share_pct: float | None = None
    """``share_pct`` is of the split time, so that rows add to 100; ``step_share_pct`` of the whole, like ``unsplit_us``: what
    the step (the unprofiled one where it was measured, ``steps.undisturbed_us``) would lose if all that took no time."""
    cpu_us: float | None = None
    count: int = 0
    kernels: list[str] = field(default_factory=list)
    shared_with: list[int] = field(default_factory=list)
    phase: Phase = field(default_factory=Phase)
    granularity: Granularity = "statement"


@dataclass(slots=True, kw_only=True)
class Idle:
    """Microseconds of the window in which the device did nothing, by cause; they sum to its idle time."""

    launch: float = 0.0
    sync: float = 0.0
    loader: float = 0.0
    copy: float = 0.0
    compile: float = 0.0
    profiler: float = 0.0
    tail: float = 0.0
    other: float = 0.0


@dataclass(slots=True, kw_only=True)
class Op:
    name: str
    count: int
    self_cpu_us: float
    cpu_us: float
    self_device_us: float | None = None
    device_us: float | None = None
    input_shapes: str | None = None
    self_cpu_memory_bytes: int | None = None
    self_device_memory_bytes: int | None = None
    source: Frame | None = None


@dataclass(slots=True, kw_only=True)
class Range:
    name: str
    count: int
    wall_us: float
    device_us: float | None = None
    source: Frame | None = None


@dataclass(slots=True, kw_only=True)
class Allocation:
    bytes: int
    file: str | None = None
    line: int | None = None
    op: str | None = None


@dataclass(slots=True, kw_only=True)
class Memory:
    device: int
    peak_bytes: int | None = None
    reserved_peak_bytes: int | None = None
    timeline: list[tuple[float, int]] = field(default_factory=list)
    top: list[Allocation] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Unattributed:
    device_us: float = 0.0
    share_pct: float | None = None
    reason: dict[str, float] = field(default_factory=dict)
    """Microseconds by reason in words; they sum to ``device_us``."""


@dataclass(slots=True, kw_only=True)
class Step:
    name: str
    start_us: float
    wall_us: float
    busy_us: float | None = None
    kernels: int = 0
    window: int = 0


@dataclass(slots=True, kw_only=True)
class Module:
    """A generated module of this program."""

    file: str
    kind: Literal["forward", "backward", "inference"]
    fx_key: str | None = None
    compile_id: str | None = None
    kernels: list[str] = field(default_factory=list)
    device_us: float | None = None


@dataclass(slots=True, kw_only=True)
class ProfileDocument:
    source: Source
    schema: int = SCHEMA
    totals: Totals = field(default_factory=Totals)
    files: list[File] = field(default_factory=list)
    quality: Quality = field(default_factory=Quality)
    devices: list[Device] = field(default_factory=list)
    categories: list[CategoryRow] = field(default_factory=list)
    own_categories: list[OwnCategory] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    """Ordered by ``total_us``, largest first."""
    lines: list[Line] = field(default_factory=list)
    phases: Phases | None = None
    """None where nothing of it is known."""
    idle: Idle = field(default_factory=Idle)
    compile_events: list[CompileEvent] = field(default_factory=list)
    padding: Padding | None = None
    ops: list[Op] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    memory: Memory | None = None
    unattributed: Unattributed = field(default_factory=Unattributed)
    steps: list[Step] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
