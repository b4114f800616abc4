"""``constant-rebuilt``: a mask, a table of positions or the like is computed anew in every step, always the same.

Two things must agree. The statement's text: everything in it is made by a constructor from sizes and numbers. And the
recording: in every step the statement runs the same operations on the same sizes, none of which takes a second tensor.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ridgeline.findings import spans, words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import line_of, trees
from ridgeline.findings.facts import Facts
from ridgeline.findings.host import REGION_PREFIXES
from ridgeline.findings.numbers import functions, is_number, numbers_of
from ridgeline.findings.stretches import Stretch
from ridgeline.profile import SourceRef

PER_STEP = 0.5
"""Times a step. Less often it is rebuilt because something changed."""
MAKERS = ("arange", "ones", "full", "eye", "linspace", "logspace", "tril_indices", "triu_indices", "tensor", "meshgrid")
"""Constructors of values that do not vary. ``zeros`` and ``empty`` make buffers to be written to, ``rand`` never the same."""
OF_TENSORS = ("tensor", "meshgrid")
"""Those that are given more than numbers."""
VARYING = ("rand", "normal", "bernoulli", "multinomial", "poisson", "empty", "dropout", "load", "from_numpy")
"""How the names of functions begin that give another value each time, or one from elsewhere."""
NUMBERS = ("len", "int", "float", "range", "list", "max", "min")
SIZES = ("size", "dim", "numel")
"""What gives a number, whatever it is asked of."""
JOIN_US = 50.0
"""Python between two operations of a statement takes less."""
MODULES = ("torch", "math", "np", "numpy", "nn", "F")
RANDOM = ("rand", "normal", "uniform", "bernoulli", "multinomial", "poisson", "dropout", "exponential", "geometric")
"""What the names of operations hold that give another value each time, called by a library's function."""


def rule(facts: Facts) -> list[Candidate]:
    found = []
    for path, tree, text in trees(facts):
        lines = {c.statement.lineno: c for c in _constants(tree)}
        if not lines:
            continue
        tops = _calls_at(facts, path, lines)
        for line, rows in tops.items():
            if len(rows) >= PER_STEP * facts.n and _always_the_same(facts, rows, lines[line]):
                found.append(_candidate(facts, SourceRef(file=path, line=line, text=line_of(text, line)), rows))
    return found


class _Constant(NamedTuple):
    statement: ast.stmt
    known: bool
    """All names in it are known to be numbers or constants: no tensor can come from elsewhere."""
    pairs: int = 0
    """Where the others are ``self.NAME``, which may be numbers: operators between two constants in it. Were one of those names a
    tensor, more operations would take two."""
    operators: int = 0
    """All operators in it, then: so many operations at least."""


def _constants(tree: ast.Module) -> Iterator[_Constant]:
    """Assignments within functions of an expression that is made of constants, to names that nothing writes into later. What one
    such assignment makes is a constant in the next, and in what is returned."""
    for function, owner in functions(tree):
        written = set(_written(function))
        numbers = numbers_of(function, owner)
        assigned = Counter(name for node in ast.walk(function) for name in _names_assigned(node))
        made: set[str] = set()
        for node in _assignments(function):
            value, names = node.value, _targets(node)
            if value is None or names is None or not written.isdisjoint(names):
                continue
            told = {*made, *numbers, *MODULES, *NUMBERS}
            unknown = _names_in(value, sizes=False) - told
            held, known = all(name.startswith("self.") for name in unknown), _names_in(value, sizes=True) <= told
            if isinstance(node, ast.Return) and not held:
                continue
            if _is_constant(value, made if held else set(), numbers):
                made |= {name for name in names if not unknown and assigned[name] == 1}
                yield _Constant(node, known, *(_operators(value, made) if held and not known else ()))


def _assignments(function: ast.AST) -> list[ast.Assign | ast.AnnAssign | ast.Return]:
    """And what is returned, in the order of the text."""
    found = [
        n
        for n in ast.walk(function)
        if (isinstance(n, ast.Assign) and len(n.targets) == 1)
        or (isinstance(n, (ast.AnnAssign, ast.Return)) and n.value is not None)
    ]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _targets(node: ast.Assign | ast.AnnAssign | ast.Return) -> list[str] | None:
    """The names that are assigned to; None where something else is, too."""
    if isinstance(node, ast.Return):
        return []
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return names if len(names) == len(parts) else None


def _operators(value: ast.expr, made: set[str]) -> tuple[int, int]:
    """(those between two constants, all) of arithmetic and comparisons with a constant in them."""

    def constant(side: ast.expr) -> bool:
        return any(
            (isinstance(n, ast.Name) and n.id in made) or (isinstance(n, ast.Call) and _called(n) in MAKERS)
            for n in ast.walk(side)
        )

    sides = [
        (n.left, n.right if isinstance(n, ast.BinOp) else n.comparators[0])
        for n in ast.walk(value)
        if isinstance(n, (ast.BinOp, ast.Compare))
    ]
    found = [constant(left) + constant(right) for left, right in sides]
    return sum(n == 2 for n in found), sum(n > 0 for n in found)


def _names_assigned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def _names_in(value: ast.expr, *, sizes: bool) -> set[str]:
    """Names and ``self.NAME``; what a size is asked of does not count, nor, without ``sizes``, what a constructor takes, which are
    numbers (the recording says whether they are the same in every step)."""
    found: set[str] = set()
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "device", "dtype"):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SIZES:
            continue
        if not sizes and isinstance(node, ast.Call) and _of_sizes(node):
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            found.add(ast.unparse(node))
        elif isinstance(node, ast.Name):
            found.add(node.id)
        else:
            waiting += ast.iter_child_nodes(node)
    return found


def _of_sizes(call: ast.Call) -> bool:
    return _called(call) in MAKERS and _called(call) not in OF_TENSORS and _root(call) in MODULES


def _written(function: ast.AST) -> Iterator[str]:
    """Names whose tensor is changed in place: ``x[...] = …``, ``x += …``, ``x.fill_(…)``."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [t.value for t in node.targets if isinstance(t, ast.Subscript)]
        elif isinstance(node, ast.AugAssign):
            targets = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _in_place(node.func.attr):
            targets = [node.func.value]
        yield from (t.id for t in targets if isinstance(t, ast.Name))


def _in_place(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _is_constant(value: ast.expr, made: set[str], numbers: set[str]) -> bool:
    """Whether a constructor or a constant is in it, or a library's function of numbers alone, nothing that gives another value each time, and every name outside
    constructors' arguments stands for a module or a number that is used as one (an operand of arithmetic; the recording says
    whether it is a tensor)."""
    calls = [c for c in ast.walk(value) if isinstance(c, ast.Call)]
    makers = [c for c in calls if _called(c) in MAKERS or _of_numbers(c, numbers)]
    uses = any(isinstance(n, ast.Name) and n.id in made for n in ast.walk(value))
    varies = any(_called(c).startswith(VARYING) for c in calls)
    return (
        (bool(makers) or uses)
        and not varies
        and all(_root(c) in MODULES for c in makers)
        and not _foreign_calls(value, made)
    )


def _of_numbers(call: ast.Call, numbers: set[str]) -> bool:
    """``nn.Transformer.generate_square_subsequent_mask(t)``: what a library's function makes of numbers is the same each time, unless
    it is random (the recording says whether) or an object of its own."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg not in ("device", "dtype"))]
    function = _called(call)
    return (
        bool(given)
        and _root(call) in MODULES
        and _root(call) != "math"
        and function[:1].islower()
        and not function.startswith(("zeros", "set_", "manual_", "use_"))
        and all(isinstance(value, ast.Constant) or is_number(value, numbers) for value in given)
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _root(call: ast.Call) -> str:
    """``torch`` of ``torch.ones(…)``, empty for ``x.new_ones(…)`` of something that is no name."""
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _foreign_calls(value: ast.expr, made: set[str]) -> bool:
    """Whether a function or method of something else is called in it: what that gives is not known."""
    for call in ast.walk(value):
        if not isinstance(call, ast.Call):
            continue
        root = _root(call)
        sized = isinstance(call.func, ast.Attribute) and call.func.attr in SIZES
        if root and root not in (*MODULES, *NUMBERS, *made) and not sized:
            return True
    return False


def _calls_at(facts: Facts, path: str, lines: dict[int, _Constant]) -> dict[int, list[int]]:
    """Outermost ops within the recorded steps by these lines."""
    found: dict[int, list[int]] = defaultdict(list)
    for row in sorted({facts.outermost(int(r)) for r in range(len(facts.trace.ops.start))}):
        if not facts.within(float(facts.trace.ops.start[row])) or facts.op_name(row).startswith(REGION_PREFIXES):
            continue
        at = facts.line_of_op(row)
        if at is not None and at.file == path and at.line in lines:
            found[at.line].append(row)
    return found


def _always_the_same(facts: Facts, rows: list[int], constant: _Constant) -> bool:
    """The same operations on the same sizes in every step, and every step the same number; unless all names are known, each
    with one tensor at most, or as many with two as the text has operators between constants."""
    signature: list[tuple[tuple[str, int], ...]] = []
    for lo, hi in facts.steps:
        mine = [r for r in rows if lo <= facts.trace.ops.start[r] < hi]
        signature.append(tuple((facts.op_name(r), int(facts.trace.ops.args[r])) for r in mine))
    if len(signature) < 2 or len(set(signature)) != 1 or not signature[0]:
        return False
    if any(word in facts.op_name(r) for r in rows for word in RANDOM):
        return False
    if not any(facts.trace.ops.args[r] >= 0 for r in rows):
        return False
    with_two = [sum(bool(d) for d in facts.all_dims_of(r)) > 1 for r in rows]
    if constant.known or not any(with_two):
        return True
    once = _period(signature[0])
    few = sum(with_two) * once <= constant.pairs * len(rows) and once >= constant.operators
    return few and not any(_takes_a_parameter(facts, r) for r in rows)


def _period(calls: tuple[tuple[str, int], ...]) -> int:
    """Of a statement that runs several times a step: how many of the calls are one run."""
    return next(n for n in range(1, len(calls) + 1) if len(calls) % n == 0 and calls == calls[:n] * (len(calls) // n))


def _takes_a_parameter(facts: Facts, op: int) -> bool:
    """Whether a tensor without dimensions that is no number of Python's (those are ``double`` and ``long int``) goes in."""
    return any(
        not dims and kind in ("float", "c10::Half", "c10::BFloat16")
        for dims, kind in zip(facts.dims_of(op), facts.types_of(op))
    )


def _candidate(facts: Facts, at: SourceRef, rows: list[int]) -> Candidate:
    mine = set(rows)
    work = [r for r in facts.recorded_work if facts.outermost(int(facts.work.op[r])) in mine]
    if facts.on_cpu or not facts.judged:
        claims = facts.op_spans(rows) if facts.on_cpu else facts.claims_of(work)
        saving = cost = spans.measure(claims)
    else:
        change = facts.whatif.without(_stretches(facts, rows))
        claims, saving = facts.whatif.claims(change), facts.whatif.saving(change)
        cost = max(facts.real(claims), min(saving, spans.measure(claims)))
    return Candidate(
        code="constant-rebuilt",
        title="A constant is computed in every step",
        fact=f"This statement makes the same tensor in every step, {words.time(facts.per_step(cost))} {facts.per}.",
        advice="Make it once, in __init__ with register_buffer or before the loop, on the device where it is used.",
        at=at,
        cost_us=cost,
        saving_us=saving,
        claims=claims,
        evidence={
            "operations_per_step": len(rows) / facts.n,
            "device_us_per_step": facts.per_step(facts.time_of(work)),
            "threshold_per_step": PER_STEP,
        },
    )


def _stretches(facts: Facts, rows: list[int]) -> list[Stretch]:
    """From the first of the statement's operations to the last, each time that it runs."""
    ops = facts.trace.ops
    found: list[Stretch] = []
    for row in sorted(rows):
        tid, start, end = int(ops.tid[row]), float(ops.start[row]), facts.op_end(row)
        if found and found[-1][0] == tid and start - found[-1][2] < JOIN_US:
            found[-1] = (tid, found[-1][1], end)
        else:
            found.append((tid, start, end))
    return found
