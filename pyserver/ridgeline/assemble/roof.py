"""The roofline of every kernel row: gathers what the model is given, and writes what it answers."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ridgeline.assemble.allocations import Allocations
from ridgeline.assemble.direct import DirectLaunches
from ridgeline.assemble.kernels import KernelRows, op_chain, triton_args
from ridgeline.attribution.model import Attribution
from ridgeline.inductor.files import stem_of
from ridgeline.inductor.module import is_wrapper, parse_wrapper
from ridgeline.inductor.names import split_site
from ridgeline.profile import Autotune, Kernel, Peaks
from ridgeline.roofline import DeviceSpec, Estimate, KernelInput, estimate
from ridgeline.roofline.inputs import Launched
from ridgeline.roofline.launched import DEFAULT_STAGES, DEFAULT_WARPS, configuration
from ridgeline.roofline.peaks import device_spec, ridge_points
from ridgeline.roofline.tensors import arguments_are_its_own
from ridgeline.roofline.user_kernels import user_kernel_text
from ridgeline.roofline.wrapper_shapes import Arguments, calls_of
from ridgeline.sidecar import Sidecar
from ridgeline.trace.tables import DeviceInfo, Trace
from ridgeline.trace.work import WorkTable

_IDENTIFIER = re.compile(r"^[A-Za-z_]\w*$")
"""What a Triton kernel is called; a library's have templates or arguments in their names."""
_SAME_TIME = 0.1
_TWIN = "Its sizes are those of the same kernel in compiled code, with the same grid, registers and time."
PEAKS_FILE = "peaks.json"
_KINDS = ("cuda", "rocm", "xpu", "npu", "mtia", "cpu")
_ACCELERATED = frozenset(_KINDS) - {"cpu"}


def device_specs(trace: Trace, sidecar: Sidecar | None, run_dir: Path | None) -> dict[int, DeviceSpec]:
    """Every device of the trace with its peaks: measured beside the run, else from the datasheet, else unknown."""
    measured = _measured(run_dir)
    specs = {}
    for info in trace.devices:
        own = measured if measured and _same_device(measured, info) else None
        threads = sidecar.cpu.get("threads") if sidecar and info.kind == "cpu" else None
        specs[info.id] = device_spec(
            info.name,
            info.kind if info.kind in _KINDS else "cuda",  # type: ignore[arg-type]  # narrowed by the membership test
            properties={**info.properties, **_torch_properties(sidecar, info)},
            measured=own,
            threads=threads if isinstance(threads, int) else None,
        )
    return specs


def _measured(run_dir: Path | None) -> dict[str, Any] | None:
    if run_dir is None or not (run_dir / PEAKS_FILE).is_file():
        return None
    try:
        found = json.loads((run_dir / PEAKS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and not found.get("skipped") else None


def _same_device(measured: Mapping[str, Any], info: DeviceInfo) -> bool:
    identity = measured.get("identity")
    kind = identity.get("kind") if isinstance(identity, dict) else None
    return kind == info.kind or (kind == "cuda" and info.kind in _ACCELERATED)


def _torch_properties(sidecar: Sidecar | None, info: DeviceInfo) -> dict[str, Any]:
    if sidecar is None or info.kind == "cpu":
        return {}
    return next((d for d in sidecar.devices if d.get("index") == info.id), {})


def peaks_of(spec: DeviceSpec) -> Peaks:
    """As the document shows them."""
    source = spec.peaks_source if spec.peaks_source in ("measured", "datasheet") else "unknown"
    return Peaks(
        source=source,  # type: ignore[arg-type]  # narrowed by the membership test
        bandwidth_gb_s=spec.bandwidth_gb_s,
        flops=dict(spec.flops),
        ridge=ridge_points(spec.bandwidth_gb_s, spec.flops),
    )


def add_roofline(
    trace: Trace,
    work: WorkTable,
    attribution: Attribution,
    rows: KernelRows,
    specs: Mapping[int, DeviceSpec],
    *,
    useful_rows_pct: float | None = None,
    tuned: Mapping[str, dict[str, Any]] | None = None,
    direct: DirectLaunches | None = None,
    programs: Sequence[str] = (),
) -> None:
    """Fill bytes, FLOPs, rates, bound and hints of autotuning into the kernel rows, in place. ``useful_rows_pct``: the
    share of the batches' positions that are no padding, where lengths were recorded; ``tuned``: the configurations chosen
    (``Sidecar.tuned``); ``direct``: arguments of the program's own Triton kernels; ``programs``: texts that may define such kernels where no
    statement of theirs is known."""
    sources = _KernelSources(attribution, tuned or {}, programs, Allocations(trace))
    twins: dict[tuple[Any, ...], list[KernelInput]] = {}
    for kernel, row in zip(rows.kernels, rows.first_work):
        spec = specs.get(kernel.device)
        if spec is None:
            continue
        given = _input(trace, work, attribution, kernel, row, sources, useful_rows_pct)
        launched = direct.of(row) if direct is not None else None
        given = given if launched is None else _as_launched(given, launched, kernel)
        if arguments_are_its_own(given) and given.kernel_source:
            twins.setdefault(_resources(kernel), []).append(given)
        _fill(kernel, estimate(given, spec))
    for kernel in rows.kernels:
        twin = _twin(kernel, twins.get(_resources(kernel), ()))
        if twin is not None and kernel.device in specs:
            _fill(
                kernel, estimate(replace(twin, duration_us=kernel.median_us, count=kernel.count), specs[kernel.device])
            )
            kernel.bound_reason = f"{kernel.bound_reason} {_TWIN}" if kernel.bound_reason else None


def _resources(kernel: Kernel) -> tuple[Any, ...]:
    """What the compile-time constants and types of a Triton kernel decide, with its grid."""
    launch = kernel.launch
    return (
        kernel.symbol,
        kernel.device,
        *(launch.grid or ()),
        *(launch.block or ()),
        launch.registers,
        launch.shared_memory,
    )


def _twin(kernel: Kernel, candidates: Sequence[KernelInput]) -> KernelInput | None:
    """Of a direct launch whose sizes nothing tells: the same kernel launched by compiled code in the same time."""
    if kernel.bound != "unknown" or kernel.bytes is not None or not _IDENTIFIER.match(kernel.symbol):
        return None
    near = [one for one in candidates if abs(one.duration_us / kernel.median_us - 1) <= _SAME_TIME]
    return near[0] if near else None


def _as_launched(given: KernelInput, launched: Launched, kernel: Kernel) -> KernelInput:
    """A program's own kernel with the arguments that it had; the row shows its configuration as it does Inductor's."""
    launch = kernel.launch
    launch.num_warps = launch.num_warps or launched.integer("num_warps", DEFAULT_WARPS)
    launch.num_stages = launch.num_stages or launched.integer("num_stages", DEFAULT_STAGES)
    given = replace(given, launched=launched, num_warps=launch.num_warps, num_stages=launch.num_stages)
    launch.config = launch.config or configuration(given) or None
    return given


def _input(
    trace: Trace,
    work: WorkTable,
    attribution: Attribution,
    kernel: Kernel,
    row: int,
    sources: _KernelSources,
    useful_rows_pct: float | None,
) -> KernelInput:
    op, config, event = int(work.op[row]), int(work.launch[row]), int(work.event[row])
    ops = op_chain(trace, op)
    triton = triton_args(trace, op) or {}
    args = int(trace.ops.args[op]) if op >= 0 else -1
    launch = kernel.launch
    direct = bool(_IDENTIFIER.match(kernel.symbol)) and not triton.get("kernel_file")
    copied = float(trace.device_events.bytes[event]) if event >= 0 else float("nan")
    found = KernelInput(
        name=kernel.name,
        symbol=kernel.symbol,
        category=kernel.category,
        duration_us=kernel.median_us,
        count=kernel.count,
        grid=tuple(launch.grid) if launch.grid else None,
        block=tuple(launch.block) if launch.block else None,
        registers=launch.registers,
        shared_memory=launch.shared_memory,
        occupancy_pct=trace.launch_configs.occupancy_pct[config] if config >= 0 else None,
        warps_per_sm=trace.launch_configs.warps_per_sm[config] if config >= 0 else None,
        num_warps=launch.num_warps,
        num_stages=launch.num_stages,
        kernel_kwargs=launch.config,
        kernel_source=sources.of(row, kernel.symbol, triton.get("kernel_file")),
        best_config=sources.configuration(row, triton.get("kernel_file")),
        op_name=ops[0] if ops else None,
        op_chain=tuple(ops),
        input_dims=trace.op_args.input_dims[args] if args >= 0 else None,
        input_types=trace.op_args.input_types[args] if args >= 0 else None,
        input_strides=trace.op_args.input_strides[args] if args >= 0 else None,
        concrete_inputs=trace.op_args.concrete_inputs[args] if args >= 0 else None,
        num_gb=_number(triton.get("kernel_num_gb")),
        kernel_flop=_number(triton.get("kernel_flop")),
        copy_bytes=copied if copied == copied else None,
        allocated=sources.allocated(int(work.call[row])) if direct else (),
        on_cpu=work.on_cpu,
        useful_rows_pct=useful_rows_pct,
    )
    if found.kernel_source is None and "::" not in (found.op_name or ""):
        call = sources.call_of(row)  # a replayed graph: the wrapper says what the trace does not
        if call is not None:
            return replace(
                found,
                op_name=call.op_name,
                input_dims=call.dims,
                input_types=call.types,
                input_strides=call.strides,
                concrete_inputs=None,
            )
    return found


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class _KernelSources:
    """The text of a kernel: its own file, or its definition in the wrapper module."""

    def __init__(
        self,
        attribution: Attribution,
        tuned: Mapping[str, dict[str, Any]],
        programs: Sequence[str] = (),
        allocations: Allocations | None = None,
    ) -> None:
        self._allocations = allocations
        self._attribution = attribution
        self._programs = programs
        self._tuned = {stem_of(path): config for path, config in tuned.items()}
        self._definitions: dict[str, dict[str, str]] = {}

    def allocated(self, call: int) -> tuple[tuple[tuple[int, ...], str], ...]:
        return self._allocations.before(call) if self._allocations is not None else ()

    def of(self, row: int, symbol: str, kernel_file: Any) -> str | None:
        index = int(self._attribution.site[row])
        site = self._attribution.sites[index] if index >= 0 else None
        file = self._file(row, kernel_file)
        if file:
            text = self._attribution.generated_text(file)
            if text is not None:
                return text
        text = self._in_module(site.module, symbol) if site and site.module else None
        return text or self._users(row, symbol)

    def _file(self, row: int, kernel_file: Any) -> str | None:
        index = int(self._attribution.site[row])
        site = self._attribution.sites[index] if index >= 0 else None
        return (site.kernel_file if site else None) or (kernel_file if isinstance(kernel_file, str) else None)

    def configuration(self, row: int, kernel_file: Any) -> dict[str, Any] | None:
        file = self._file(row, kernel_file)
        return self._tuned.get(stem_of(file)) if file else None

    def _users(self, row: int, symbol: str) -> str | None:
        """A user's own Triton kernel, launched directly: the file of the statement, or of its callers, defines it."""
        if not symbol.isidentifier():
            return None
        index = int(self._attribution.source[row])
        refs = self._attribution.sources[index] if index >= 0 else ()
        places = dict.fromkeys(f for r in refs for f in (r.file, *(frame.file for frame in reversed(r.stack))))
        lines = (self._attribution.source_lines(file) for file in places)
        texts = ("\n".join(text) for text in lines if text)
        return user_kernel_text(symbol, chain(texts, self._programs))

    def call_of(self, row: int) -> Arguments | None:
        """The sizes of a library call in generated code, where the launch is known to be one."""
        index = int(self._attribution.site[row])
        site = self._attribution.sites[index] if index >= 0 else None
        if site is None or site.module is None or site.call_line is None:
            return None
        text = self._attribution.generated_text(site.module)
        return calls_of(text).get(site.call_line) if text is not None else None

    def _in_module(self, module: str, symbol: str) -> str | None:
        if module not in self._definitions:
            text = self._attribution.generated_text(module)
            found: dict[str, str] = {}
            if text is not None and is_wrapper(text):
                for definition in parse_wrapper(text, module).kernels.values():
                    source = self._attribution.generated_text(definition.path) if definition.path else None
                    source = source or _embedded(text, definition.line, definition.end_line)
                    if source:
                        found[definition.symbol] = found[definition.name] = source
            self._definitions[module] = found
        site = split_site(symbol)  # the agent names an instrumented call ``kernel@line#stem``
        return self._definitions[module].get(site[0] if site else symbol)


def _embedded(module: str, line: int, end_line: int) -> str | None:
    """The kernel's own text in ``NAME = async_compile.triton('SYMBOL', \'\'\'…\'\'\', …)``."""
    try:
        (statement,) = ast.parse("\n".join(module.splitlines()[line - 1 : end_line])).body
    except (SyntaxError, ValueError, RecursionError):
        return None
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or len(call.args) < 2 or not isinstance(call.args[1], ast.Constant):
        return None
    return call.args[1].value if isinstance(call.args[1].value, str) else None


def _fill(kernel: Kernel, found: Estimate) -> None:
    kernel.bytes = found.bytes
    kernel.dram_bytes = found.dram_bytes
    kernel.flops = found.flops
    kernel.arithmetic_intensity = found.arithmetic_intensity
    kernel.gb_per_s = found.gb_per_s
    kernel.tflop_per_s = found.tflop_per_s
    kernel.bound = found.bound
    kernel.borderline = found.borderline
    kernel.bound_resource = found.resource
    kernel.bound_cause = found.cause
    kernel.bound_reason = " ".join([s for s in (found.reason, *found.notes) if s]) or None
    kernel.bound_confidence = found.confidence
    kernel.compute_pct = found.compute_pct
    kernel.memory_pct = found.memory_pct
    kernel.bound_source = "estimated" if found.bound != "unknown" else None
    kernel.launch.waves = found.waves
    if found.autotune_candidate:
        kernel.autotune = Autotune(status="candidate")
