"""The benchmark's document for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ridgeline.bench.measure import NOT_STEADY, WITHOUT_CORE, shown_us

if TYPE_CHECKING:
    from rich.console import Console


MANY = 3
"""Kernels from which a note is said once for all."""


def show(document: dict[str, Any], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    own = "kernels of its own, as launched in a run"
    kind = document["module_kind"] or (own if document["file_kind"] == "launches" else "kernel")
    against = f" against {document['against']}" if document["against"] else ""
    where = f"{document['device'] or ''}, torch {document['torch'] or '?'}"
    console.print(escape(f"{document['file']}{against}  ({kind})  {where}"))
    for warning in document["warnings"]:
        console.print(escape(f"warning: {warning}"), highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header, side in (("kernel", "left"), ("line", "right"), ("cache", "left"), ("median", "right"), ("spread", "right"),
                         ("GB", "right"), ("GB/s", "right")):  # fmt: skip
        table.add_column(header, justify=side, overflow="fold")  # type: ignore[arg-type]
    for kernel in document["kernels"]:
        shown = [cache for cache in ("warm", "cold") if kernel[cache] is not None]
        for cache in shown:
            table.add_row(*(escape(cell) for cell in _cells(kernel, cache, first=cache == shown[0])))
            if kernel["against"] and kernel["against"][cache]:
                table.add_row(*(escape(cell) for cell in _edited(kernel, kernel["against"][cache])))
        if not shown:
            table.add_row(escape(kernel["name"]), str(kernel["line"]), "", "n/a")
    if document["kernels"]:
        console.print(table)
    else:
        console.print("it defines no kernels of its own: there is nothing to benchmark", highlight=False)
    common = _common(document["kernels"])
    for line in common.values():
        console.print(escape(line), highlight=False)
    for kernel in document["kernels"]:
        for line in _lines(kernel, common):
            console.print(escape(f"{kernel['name']}: {line}"), highlight=False)
    for choice in document["multi_kernels"]:
        said = [choice[cache]["sentence"] for cache in ("cold", "warm") if choice[cache]]
        console.print(
            escape(f"{choice['name']}: {'; '.join(said) or 'its kernels were not measured'}"), highlight=False
        )
    for fallback in document["fallbacks"]:
        reason = fallback["reason"] or f"{fallback['op']} is no kernel of this module's"
        console.print(escape(f"line {fallback['line']}: {reason}"), highlight=False)
    if document["run"]:
        console.print(escape(f"arguments from {document['run']}"), highlight=False)
    for note in document["notes"]:
        console.print(escape(f"note: {note}"), highlight=False)


def _cells(kernel: dict[str, Any], cache: str, *, first: bool) -> list[str]:
    timing = kernel[cache]
    name = [kernel["name"], str(kernel["line"])] if first else ["", ""]
    if timing["median_us"] is None:
        return [*name, cache, "n/a", "", _number(kernel["gb"]), "n/a"]
    spread = "" if timing["spread"] is None else f"± {timing['spread'] / 2:.1%}"
    rate = "n/a" if timing["gb_per_s"] is None else f"{timing['gb_per_s']:.4g}"
    return [*name, cache, shown_us(timing["median_us"]), spread, _number(kernel["gb"]), rate]


def _edited(kernel: dict[str, Any], compared: dict[str, Any]) -> list[str]:
    """The edited copy's row below the original's; its time is of the A-B-A-B rounds."""
    if compared["after_us"] is None:
        return ["  edited", "", "", "n/a", "", "", "n/a"]
    rate = "" if kernel["gb"] is None else f"{kernel['gb'] / compared['after_us'] * 1e6:.4g}"
    return ["  edited", "", "", shown_us(compared["after_us"]), "", "", rate]


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}"


def _common(kernels: list[dict[str, Any]]) -> dict[str, str]:
    """What would be said of many kernels, once: how its note begins -> the line."""
    found = {}
    for begins, words in (
        (
            WITHOUT_CORE,
            "their threads were without a core for much of the time: too long, measure again when the machine is idle",
        ),
        (NOT_STEADY, NOT_STEADY),
    ):
        names = [kernel["name"] for kernel in kernels if any(
            kernel[cache] is not None and str(kernel[cache]["note"]).startswith(begins) for cache in ("warm", "cold")
        )]  # fmt: skip
        if len(names) >= MANY:
            whose = "all kernels" if len(names) == len(kernels) else f"{len(names)} of {len(kernels)} kernels"
            more = "" if len(names) == len(kernels) else f" ({', '.join(names[:3])}{'…' if len(names) > 3 else ''})"
            found[begins] = f"{whose}: {words}{more}"
    return found


def _lines(kernel: dict[str, Any], common: Iterable[str] = ()) -> list[str]:
    lines = []
    if kernel["problem"]:
        lines.append(kernel["problem"])
    if kernel["against"]:
        lines += [kernel["against"]["sentence"], *kernel["against"].get("notes", [])]
    said: dict[str, list[str]] = {}
    for cache in ("warm", "cold"):
        note = kernel[cache]["note"] if kernel[cache] is not None else None
        if note and not note.startswith(tuple(common)):
            said.setdefault(kernel[cache]["note"], []).append(cache)
    lines += [f"{' and '.join(states)}: {note}" for note, states in said.items()]
    if kernel["config"]:
        parts = [kernel["config"]]
        parts += [
            f"{kernel[key]} {word}"
            for key, word in (("registers", "registers"), ("spills", "spills"))
            if kernel[key] is not None
        ]
        if kernel["shared_memory"] is not None:
            parts.append(f"{kernel['shared_memory']} B shared memory")
        lines.append(", ".join(parts))
    if kernel["launched"]:
        lines.append(f"launched with {kernel['launched']}")
    elif kernel["arguments"] and kernel["arguments"].startswith("made"):
        lines.append(f"arguments {kernel['arguments']}")
    if kernel["tflop_per_s"]:
        lines.append(f"{kernel['tflop_per_s']:.4g} TFLOP/s")
    lines += [*kernel["notes"], *kernel["needs"]]
    tuned = kernel["autotune"]
    if tuned is not None:
        lines.append(f"autotune: {tuned['state'].replace('_', ' ')}: {tuned['sentence']}")
        if tuned["state"] == "verified":
            lines += [
                f"{tuned['config']}, compiling takes {tuned['compile_s']:.1f} s longer",
                f"{tuned['remedy']}; {tuned['wider']}",
            ]
            lines += [
                f"the {one['search']} search: {one['speedup']:.2f}x, {one['config']}, compiling takes {one['compile_s']:.1f} s longer"
                for one in tuned["searches"]
                if one["config"] != tuned["config"]
            ]
            if tuned["step_gain"] is not None:
                lines.append(f"of the whole step: {tuned['step_gain']:.1%}")
            if tuned["caution"]:
                lines.append(tuned["caution"])
    return lines
