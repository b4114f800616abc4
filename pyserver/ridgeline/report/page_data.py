"""What the page shows: a cut of the profile that can be sent. The page's script reads it, the editor's overview may.

Times are microseconds a step (a window, where steps are not known). Every text has gone through the redactor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from ridgeline import __version__, names
from ridgeline.compare import Change, Comparison, compare
from ridgeline.profile import (
    CategoryRow,
    Device,
    Frame,
    GeneratedRef,
    Kernel,
    Line,
    OwnCategory,
    ProfileDocument,
    SourceRef,
)
from ridgeline.report.breakdown import parts
from ridgeline.report.redact import Redactor
from ridgeline.report.whatif import Outcome, outcomes, step_us, twice_as_fast
from ridgeline.roofline.peaks import T, datasheet

FORMAT = 1
"""Raised when the page's script needs other data than before."""
NAME_LIMIT = 2000
"""Characters of a kernel's symbol: C++ templates have no end."""
WHAT_IF_KERNELS = 500
"""Kernels, the hottest first, that "twice as fast" is reckoned for; the others together are hardly worth a per cent."""

Json = dict[str, Any]
Links = dict[str, list[tuple[str, int]]]
"""Of a place as the page writes it: the files and (one-based) lines. More than one where shortened paths are the same."""


def page_data(
    document: ProfileDocument, *, before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None
) -> Json:
    """``before`` and ``after`` are decoded documents for the comparison; ``after`` is ``document`` again."""
    return page_and_links(document, before=before, after=after)[0]


def page_and_links(
    document: ProfileDocument, *, before: Mapping[str, Any] | None = None, after: Mapping[str, Any] | None = None
) -> tuple[Json, Links]:
    """The page's data, and where on this machine its places are: those stay with the editor that shows the page."""
    maker = _Maker(document)
    data = maker.data()
    if before is not None and after is not None:
        data["comparison"] = maker.comparison(compare(before, after))
    data["redacted"] = maker.redact.count
    return data, maker.links


class _Maker:
    def __init__(self, document: ProfileDocument) -> None:
        self.document = document
        self.redact = Redactor(document)
        self.links: Links = {}
        self.steps = document.source.steps or 1

    def data(self) -> Json:
        document = self.document
        return {
            "format": FORMAT,
            "version": __version__,
            "per": "step" if document.source.steps else "window",
            "head": self._head(),
            "devices": [self._device(device) for device in document.devices],
            "phases": self._phases(),
            "categories": [self._category(row, row.category) for row in document.categories],
            "own": [self._category(row, self.redact.text(row.name)) for row in document.own_categories],
            "kernels": [self._kernel(kernel, rank) for rank, kernel in enumerate(document.kernels)],
            "lines": [self._line(line) for line in document.lines],
            "ops": [
                {
                    "name": self.redact.text(op.name), "shapes": self.redact.text(op.input_shapes) if op.input_shapes else None, "count": op.count / self.steps,
                    "self_cpu": op.self_cpu_us / self.steps, "cpu": op.cpu_us / self.steps,
                    "self_device": self._per(op.self_device_us), "device": self._per(op.device_us),
                    "self_cpu_bytes": self._per(op.self_cpu_memory_bytes),
                    "self_device_bytes": self._per(op.self_device_memory_bytes),
                    "place": self._place(op.source),
                }
                for op in document.ops
            ],
            "ranges": [
                {
                    "name": self.redact.text(row.name), "count": row.count / self.steps, "wall": row.wall_us / self.steps,
                    "device": self._per(row.device_us), "place": self._place(row.source),
                }
                for row in document.ranges
            ],
            "findings": [
                {
                    "code": f.code, "title": self.redact.text(f.title), "severity": f.severity,
                    "message": self.redact.text(f.message), "place": self._where(f.file, f.line),
                    "cost": f.time_us, "saving": f.saving_us, "bound": f.saving_bound_us, "gain": f.step_gain_pct,
                }
                for f in document.findings
            ],
            "unattributed": {
                "us": document.unattributed.device_us / self.steps, "share": document.unattributed.share_pct,
                "reasons": [[self.redact.text(name), us / self.steps] for name, us in document.unattributed.reason.items()],
            },
            "stepRows": [
                {"name": self.redact.text(s.name), "wall": s.wall_us, "busy": s.busy_us, "kernels": s.kernels, "window": s.window}
                for s in document.steps
            ],
            "memory": self._memory(),
            "whatif": [self._outcome(outcome) for outcome in outcomes(document)],
            "quality": [
                {"code": w.code, "message": self.redact.text(w.message), "count": w.count} for w in document.quality.warnings
            ],
            "comparison": None,
        }  # fmt: skip

    def _category(self, row: CategoryRow | OwnCategory, name: str) -> Json:
        return {
            "device": row.device, "name": name, "us": row.time_us / self.steps, "share": row.share_pct,
            "count": row.count / self.steps,
        }  # fmt: skip

    def _per(self, us: float | None) -> float | None:
        return None if us is None else us / self.steps

    def _where(self, file: str | None, line: int | None) -> str | None:
        if not file:
            return None
        if not line:
            return self.redact.path(file)
        shown = f"{self.redact.path(file)}:{line}"
        known = self.links.setdefault(shown, [])
        if (file, line) not in known:
            known.append((file, line))
        return shown

    def _place(self, frame: Frame | SourceRef | None) -> str | None:
        return self._where(frame.file, frame.line) if frame is not None else None

    def _head(self) -> Json:
        source, totals = self.document.source, self.document.totals
        device = self.document.devices[0] if self.document.devices else None
        return {
            "title": self.redact.title(source.path),
            "kind": source.kind, "created": source.created, "torch": source.torch, "python": source.python,
            "revision": source.revision, "ranks": source.ranks,
            "argv": self.redact.argv(source.argv) if source.argv else None,
            "steps": source.steps, "recorded_with": asdict(source.recorded_with),
            "step": step_us(self.document, device) if device is not None else self._per(totals.wall_us),
            "plain_step": totals.plain_step_us, "recorded_step": self._per(totals.wall_us), "compile": totals.compile_us, "warmup": totals.warmup_us,
            "overhead": source.profiler_overhead_pct, "others": source.other_processes_on_device,
        }  # fmt: skip

    def _device(self, device: Device) -> Json:
        peaks = device.peaks
        roofs = []
        if peaks.bandwidth_gb_s and peaks.flops:
            roofs.append({"source": peaks.source, "bandwidth": peaks.bandwidth_gb_s, "flops": dict(peaks.flops)})
        sheet = datasheet(device.name) if device.kind != "cpu" and peaks.source == "measured" else None
        if sheet is not None:
            rates = {name: rate * T for name, rate in sheet.flops.items()}
            roofs.append({"source": "datasheet", "bandwidth": sheet.bandwidth_gb_s, "flops": rates})
        idle = device.window_idle_pct if device.window_idle_pct is not None else device.idle_pct
        return {
            "id": device.id, "name": self.redact.text(device.name), "kind": device.kind, "idle": idle,
            "streams": device.streams, "roofs": roofs,
            "parts": [
                {"name": p.name, "label": p.label, "group": p.group, "us": p.us / self.steps}
                for p in parts(self.document, device)
            ],
        }  # fmt: skip

    def _phases(self) -> Json | None:
        """Forward, backward, optimizer and what is none of them for sure: of all device time."""
        sums = self.document.phases
        if sums is None:
            return None
        named = {
            "forward": sums.forward_us, "backward": sums.backward_us, "optimizer": sums.optimizer_us,
            "not known": sums.unknown_us,
        }  # fmt: skip
        return {name: us / self.steps for name, us in named.items() if us or name != "not known"}

    def _kernel(self, kernel: Kernel, rank: int) -> Json:
        own = [s for s in kernel.source if not s.library] or kernel.source
        half = twice_as_fast(self.document, kernel) if rank < WHAT_IF_KERNELS else None
        return {
            "id": kernel.id, "name": self.redact.text(names.short(kernel.name[:NAME_LIMIT])),
            "symbol": self.redact.text(kernel.symbol[:NAME_LIMIT]), "device": kernel.device, "category": kernel.category,
            "us": kernel.total_us / self.steps, "count": kernel.count / self.steps, "share": kernel.share_pct,
            "step": kernel.step_share_pct,
            "spread": [kernel.min_us, kernel.q1_us, kernel.median_us, kernel.q3_us, kernel.max_us],
            "bound": kernel.bound, "borderline": kernel.borderline, "resource": kernel.bound_resource,
            "reason": self.redact.text(kernel.bound_reason) if kernel.bound_reason else None,
            "estimated": kernel.bound_source != "counters", "compute": kernel.compute_pct, "memory": kernel.memory_pct,
            "bytes": kernel.bytes, "flops": kernel.flops, "intensity": kernel.arithmetic_intensity,
            "gbs": kernel.gb_per_s, "tflops": kernel.tflop_per_s,
            "grid": kernel.launch.grid, "block": kernel.launch.block, "registers": kernel.launch.registers,
            "shared": kernel.launch.shared_memory, "config": kernel.launch.config, "waves": kernel.launch.waves,
            "places": [place for s in own[:20] if (place := self._place(s))],
            "generated": [place for ref in kernel.generated[:6] if (place := self._generated(ref))],
            "aten": [self.redact.text(name) for name in kernel.aten[:20]],
            "autotune": asdict(kernel.autotune) if kernel.autotune is not None else None,
            "half": self._outcome(half) if half is not None else None,
        }  # fmt: skip

    def _generated(self, ref: GeneratedRef) -> str | None:
        """Where it is launched; else where it is defined."""
        return self._where(ref.file, ref.call_lines[0].line if ref.call_lines else ref.line)

    def _line(self, line: Line) -> Json:
        share = line.step_share_pct
        if share is None and line.share_pct is not None and line.device_us > 0:
            share = (
                line.share_pct * line.unsplit_us / line.device_us
            )  # like the time beside it: all that touches the line
        return {
            "place": self._where(line.file, line.line), "text": self.redact.text(line.text.strip()) if line.text else None,
            "us": line.unsplit_us / self.steps, "split": line.device_us / self.steps, "share": share,
            "count": line.count / self.steps, "shared_with": line.shared_with, "function": line.granularity == "function",
            "phase": [
                line.phase.forward_us / self.steps, line.phase.backward_us / self.steps,
                line.phase.optimizer_us / self.steps,
            ],
        }  # fmt: skip

    def _memory(self) -> Json | None:
        memory = self.document.memory
        if memory is None:
            return None
        start = memory.timeline[0][0] if memory.timeline else 0.0
        return {
            "device": memory.device, "peak": memory.peak_bytes, "reserved": memory.reserved_peak_bytes,
            "timeline": [[time - start, size] for time, size in memory.timeline],
            "top": [
                {"bytes": a.bytes, "op": self.redact.text(a.op) if a.op else None, "place": self._where(a.file, a.line)}
                for a in memory.top
            ],
        }  # fmt: skip

    def _outcome(self, outcome: Outcome) -> Json:
        return {
            "name": outcome.name, "label": self.redact.text(outcome.label), "low": outcome.low_us,
            "high": outcome.high_us, "estimate": outcome.estimate_us, "assumptions": outcome.assumptions,
        }  # fmt: skip

    def comparison(self, found: Comparison) -> Json:
        def rows(changes: Iterable[Change]) -> list[Json]:
            return [self._change(change) for change in changes]

        return {
            "before": self.redact.title(found.before), "after": self.redact.title(found.after), "basis": found.basis,
            "step": self._change(found.step) if found.step is not None else None, "device": self._change(found.device),
            "kernels": rows(found.kernels), "lines": rows(found.lines), "categories": rows(found.categories),
            "refused": [self.redact.text(reason) for reason in found.refused],
            "resolved": [self.redact.text(finding) for finding in found.resolved],
        }  # fmt: skip

    def _change(self, change: Change) -> Json:
        return {
            "label": self.redact.text(names.short(change.label[:NAME_LIMIT])), "before": change.before_us,
            "after": change.after_us, "delta": change.delta_us, "pct": change.delta_pct, "verdict": change.verdict,
            "noise": change.noise_us,
        }  # fmt: skip
