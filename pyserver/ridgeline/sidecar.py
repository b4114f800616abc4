"""``sidecar.json``: what only the live process knew, written by the agent beside the trace, read by analysis.

Standard library only. The agent (which imports nothing of ours) writes these shapes as plain dicts; this module is
the one place where they are declared. Fields may be added; unknown ones are ignored on reading. Times are integer
nanoseconds of the Unix clock (``time.time_ns``), the clock of the trace: unix ns = baseTimeNanoseconds + ts * 1000.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1


@dataclass(slots=True, kw_only=True)
class Interval:
    start_ns: int
    end_ns: int


@dataclass(slots=True, kw_only=True)
class Bare:
    """Steps after the window that were recorded once more, without their lines, which slow the program's own Python."""

    steps: list[Interval] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    """[0 operator, 1 range; index into ``names``; start, ns; length, ns], in order of start. What runs within an operator of torch's own
    is left out."""
    plain_ns: list[int] = field(default_factory=list)
    """The unprofiled steps right after them."""
    faults: list[int] = field(default_factory=list)
    """Pages that the process was given in each of the steps, without reading them from anywhere..."""
    plain_faults: list[int] = field(default_factory=list)
    """...and in each of the unprofiled ones."""


@dataclass(slots=True, kw_only=True)
class Window:
    """One recorded stretch of the program; its trace lies in the run folder."""

    trace: str
    """File name relative to the run folder, ``trace.json.gz`` for the first."""
    reason: str
    """Why it opened: stable | gave_up | whole | timer | after | user_profiler | manual."""
    marker: str | None = None
    """What delimits a step: profiler_step | optimizer | region | loader | timer | None."""
    start_ns: int = 0
    end_ns: int = 0
    steps: list[Interval] = field(default_factory=list)
    stacks: bool = False
    shapes: bool = False
    memory: bool = False
    lines: bool = False
    """Whether the user-line timeline ran."""
    complete: bool = True
    ran_ns: int | None = None
    """All threads of the process together, within the window; None where the system does not tell."""
    waited_ns: int | None = None
    """The same: ready to run and without a core."""
    running: float | None = None
    """What part of the window the thread that opened and closed it computed."""
    plain_running: float | None = None
    """The same of the plain steps. Where the two differ, other programs took the machine's cores more of the one time."""
    bare: Bare | None = None
    """None where the program ended before, and on a device."""
    allocations: int | None = None
    """How many blocks the caching allocators of all CUDA devices handed out within the window; None without CUDA."""
    plain_counts: list[list[int]] = field(default_factory=list)
    """Where nothing marks steps, one row for each look at these allocators after the window, unprofiled and at moments at which the
    devices were idle: [end of what lies before it, ns; start of what follows, ns; allocations since the process began]."""
    asleep_ns: int | None = None
    """The process' first thread within the window: neither running nor ready to, for it waited for something."""


@dataclass(slots=True, kw_only=True)
class Compile:
    """One compilation, as torch._dynamo's callbacks saw it."""

    start_ns: int
    end_ns: int
    trigger: str = ""
    compile_id: str | None = None


@dataclass(slots=True, kw_only=True)
class Graph:
    """One compiled graph whose generated module ran in this process (``CompiledFxGraph.post_compile``)."""

    path: str
    """The generated wrapper module, as torch named it."""
    cache_key: str
    fx_key: str | None = None
    is_backward: bool = False
    is_inference: bool = False
    compile_id: str | None = None
    devices: list[str] = field(default_factory=list)
    kernel_stacks: dict[str, list[str]] = field(default_factory=dict)
    """``kernel:handle`` -> stack strings as Inductor prints them (frames outermost first)."""
    node_mappings: dict[str, Any] = field(default_factory=dict)
    call_stack: list[list[Any]] = field(default_factory=list)
    """[file, line, function] of the user's call of the compiled region, innermost last; fallback for library models."""
    instrumented: bool = False
    """Whether call sites were wrapped; then events are named ``kernel@line#stem``, stem = module file name without .py."""


@dataclass(slots=True, kw_only=True)
class Timeline:
    """The user-line timeline: which user statement each thread was in.

    ``file`` holds, thread after thread, three little-endian arrays of ``count`` items: int64 time_ns, int32 line
    (0: the frame returned or yielded, -1: it was entered or resumed), int32 code (index into ``codes``). Code 0x7fffffff:
    "line" counts the calls of a library's functions since the event before that a tracer was called for. Recordings of
    earlier versions have neither; there a frame's first event is its entry.
    """

    file: str
    codes: list[list[Any]] = field(default_factory=list)
    """[file, first line, qualified name]"""
    threads: list[list[int]] = field(default_factory=list)
    """[native thread id, byte offset, count]"""


@dataclass(slots=True, kw_only=True)
class CapturedFile:
    path: str
    sha256: str
    kind: str = "user"
    """user | library | generated | cubin"""
    snapshot: str = ""
    """Relative to the run folder: ``files/<sha256><suffix>``."""


@dataclass(slots=True, kw_only=True)
class CompileNote:
    """A graph break, recompile, skipped CUDA graph or fallback, with its reason as torch gave it."""

    kind: str
    reason: str
    file: str | None = None
    line: int | None = None
    time_ns: int | None = None


@dataclass(slots=True, kw_only=True)
class LoaderInfo:
    """A DataLoader the program iterates: its settings and the call line of the loop."""

    num_workers: int
    pin_memory: bool
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    batch_size: int | None = None
    file: str | None = None
    line: int | None = None
    waits: list[Interval] = field(default_factory=list)
    """Each ``__next__`` within the recorded stretch."""
    cpu_share: float | None = None
    """Which part of the waits the waiting thread computed, 0..1: without workers, what of loading is work and not waiting
    for files. None in recordings of earlier versions."""
    ready: list[bool | None] = field(default_factory=list)
    """Of each of ``waits``: whether a worker had made the batch when it was asked for. None where torch does not tell; empty
    without workers, and in recordings of earlier versions."""
    plain_us: float | None = None
    """Middle of the waits while nothing was recorded; None where there were none, or the recording is of an earlier version."""
    draws: list[Interval] | None = None
    """When, within ``waits``, the loop's own thread was in the sampler for indices: with workers for a batch that many ahead. None where
    torch does not tell, and in recordings of earlier versions."""
    plain_drawn_us: float | None = None
    """Middle of what of a wait went into that while nothing was recorded."""
    plain_waits: int = 0
    """How many these were."""
    plain_late: int = 0
    """Of how many of these the batch was not made yet when it was asked for; without workers none is."""
    batch_tensors: int | None = None
    """Tensors of a batch; None where a batch holds objects that the agent does not look into."""
    batch_bytes: int | None = None
    """Of these tensors, and of arrays beside them."""


@dataclass(slots=True, kw_only=True)
class TritonKernel:
    """A ``@triton.jit`` kernel that the program launches itself, and with which arguments it did."""

    name: str
    file: str
    line: int
    """Of its ``def``."""
    text: str = ""
    """A module that stands alone: the kernel, the constants and helpers that it uses. Empty where it would be too long."""
    needs: list[str] = field(default_factory=list)
    """What could not be put into it: ``helper NAME``, ``constant NAME``."""
    launches: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)
    # A tensor descriptor made on the host is of type "unknown" with "of", the tensor, and "block", the tile that it loads.
    """{arguments: [{name, size, stride, dtype, device, same_as} or {name, value} or {name, type, value}], grid, options}.
    Of an integer tensor ``content`` {low, high, sorted} says what it held, of a small one its ``values`` as well."""
    recorded: list[list[int]] = field(default_factory=list)
    """[time_ns, index in ``calls`` or -1] of every launch within a window, where launches differed in their arguments. A
    launch is entered here just before the driver is called."""


@dataclass(slots=True, kw_only=True)
class Sidecar:
    schema: int = SCHEMA
    torch: str | None = None
    python: str | None = None
    pid: int | None = None
    rank: int | None = None
    world_size: int | None = None
    argv: list[str] = field(default_factory=list)
    cwd: str | None = None
    main: str | None = None
    """Absolute path of the script or module that ran as ``__main__``."""
    user_roots: list[str] = field(default_factory=list)
    """Folders whose code counts as the user's."""
    windows: list[Window] = field(default_factory=list)
    plain_steps_ns: list[int] = field(default_factory=list)
    cupti_left: bool | None = None
    """Whether the plain steps ran with CUPTI detached, as without a profiler; None where there was none, or not known."""
    cupti_kept: str | None = None
    """Why CUPTI stayed attached."""
    profiled_steps_ns: list[int] = field(default_factory=list)
    compiles: list[Compile] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    timeline: Timeline | None = None
    files: list[CapturedFile] = field(default_factory=list)
    compile_notes: list[CompileNote] = field(default_factory=list)
    loaders: list[LoaderInfo] = field(default_factory=list)
    triton_calls: list[TritonKernel] = field(default_factory=list)
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By kernel file: the chosen configuration, as ``.best_config`` has it (block sizes, num_warps, found_by_coordesc…)."""
    labels: list[list[Any]] = field(default_factory=list)
    """record_function labels as the user wrote them: [start_ns, end_ns, native thread id, label]"""
    lengths: list[list[int]] = field(default_factory=list)
    """With ``--lengths``: real sequence lengths per sampled batch."""
    padded_to: list[int] = field(default_factory=list)
    lengths_at: list[Any] | None = None
    """[file, line] of the user's call of the outermost module whose inputs were looked at."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    """What torch says of each device: index, name, capability, total_memory, multi_processor_count, l2_cache_size, clocks…,
    and ``memory``: peak_allocated, peak_reserved (bytes), retries, out_of_memory (times), all since the process began."""
    cpu: dict[str, Any] = field(default_factory=dict)
    """threads (torch.get_num_threads), cores (those this process may run on), model name, capability (AVX2, AVX512…)."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Global flags that findings read: float32_matmul_precision, allow_tf32, cudnn_benchmark, deterministic…"""
    exit_status: int | None = None
    imported_torch_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    notes: list[str] = field(default_factory=list)
    """What a person should know, in words (short script, user profiler harvested, tracing left alone…)."""
    errors: list[str] = field(default_factory=list)
    """Hooks that could not be installed or failed: shown as quality warnings."""
