"""``fallback-kernel``, as the recording shows it: an ATen operator called from generated code that is not one of the library
calls which Inductor chooses on purpose. (What torch reports by itself: ``compile_events``.)"""

from __future__ import annotations

import re
from collections import defaultdict

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.regions import Regions
from ridgeline.findings.rules.small_kernels import VIEWS
from ridgeline.profile import SourceRef

CHOSEN = (
    "mm addmm bmm baddbmm mv addmv dot convolution convolution_backward cudnn_convolution mkldnn_convolution miopen_convolution "
    "_scaled_mm _int_mm _weight_int8pack_mm copy_ empty_strided randint rand randn normal_ uniform_ random_ manual_seed"
).split()
"""Library calls that are better than a kernel of Inductor's own, and what only prepares. Attention and MKL-DNN by prefix."""
CHOSEN_PREFIXES = (
    "_scaled_dot_product",
    "mkldnn_",
    "onednn",
    "cudnn_",
    "_efficient_attention",
    "_flash_attention",
    "linear_",
)
METHODS = ("sum", "zero_", "fill_", "zeros", "ones")
"""What generated modules do to their own workspaces."""
WRAPPER = "def call("
CALL = re.compile(r"\b(?:ops\.aten|aten|extern_kernels)\.(\w+)(?:\.\w+)?\(")
COMPLEX = "c10::complex"


def rule(facts: Facts) -> list[Candidate]:
    groups: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    calls: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    places: dict[tuple[str, str, int], SourceRef] = {}
    regions, called = Regions(facts), _called(facts)
    for row in facts.recorded_work:
        op = regions.called_from_graph(int(facts.work.op[row]))
        name = facts.op_name(op) if op >= 0 else ""
        at = facts.line_of_work(row) if name.startswith("aten::") and _is_fallback(name, called) else None
        if at is not None:
            key = (facts.op_name(op), at.file, at.line)
            groups[key].append(row)
            calls[key].add(op)  # one call may be many rows: operators within it, or several kernels
            places[key] = at
    reported = {(e.file, e.line) for e in facts.document.compile_events if e.kind == "fallback"}
    return [
        _candidate(facts, name, places[name, file, line], rows, len(calls[name, file, line]))
        for (name, file, line), rows in groups.items()
        if (file, line) not in reported
    ]


def _called(facts: Facts) -> set[str] | None:
    """Names of ATen operators that the generated modules call; None where no module's text is at hand."""
    texts = [text for text in facts.context.generated.values() if WRAPPER in text]
    return {name for text in texts for line in text.splitlines() for name in _calls_in(line)} if texts else None


def _calls_in(line: str) -> list[str]:
    return [] if line.lstrip().startswith("#") else CALL.findall(line)


def _is_fallback(name: str, called: set[str] | None) -> bool:
    """By the module's text: what it does not call through ``torch.ops`` it does by a method of its own buffers (the second
    half of a split reduction, ``workspace.sum(dim=0)``). Without the text reductions of Inductor's own cannot be told apart."""
    bare = name.removeprefix("aten::")
    return not _chosen(name) and (bare in called if called is not None else bare not in METHODS)


def _chosen(name: str) -> bool:
    bare = name.removeprefix("aten::")
    return bare in CHOSEN or name in VIEWS or bare.startswith((*CHOSEN_PREFIXES, "view", "resolve_", "real", "imag"))


def _candidate(facts: Facts, name: str, at: SourceRef, rows: list[int], calls: int) -> Candidate:
    types = {t for r in rows for a in facts.ancestors(int(facts.work.op[r])) for t in facts.types_of(a)}
    complex_type = any(t.startswith(COMPLEX) for t in types)
    why = "complex types have no generated code" if complex_type else "Inductor has no code of its own for it"
    total = facts.time_of(rows)
    return Candidate(
        code="fallback-kernel",
        title="An operation that Inductor does not compile",
        fact=f"{name} runs as an ATen fallback inside compiled code, {words.times(calls / facts.n)} {facts.per} "
        f"({words.time(facts.per_step(total))}): {why}, and nothing fuses with it.",
        advice="Write it with real and imaginary parts apart."
        if complex_type
        else "Write it in operations that compile.",
        at=at,
        cost_us=None if complex_type else total,
        evidence={"op": name, "calls_per_step": calls / facts.n, "complex": complex_type},
    )
