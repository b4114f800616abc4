"""``float64``: tensors in double precision, which hardly any model means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ridgeline.findings import words
from ridgeline.findings.candidate import Candidate
from ridgeline.findings.code import line_of, trees
from ridgeline.findings.double_cost import left
from ridgeline.findings.double_text import makers
from ridgeline.findings.doubles import Entry, entry
from ridgeline.findings.facts import Facts
from ridgeline.findings.gemm import product_of
from ridgeline.findings.places import RELATED, related
from ridgeline.findings.spans import Spans
from ridgeline.findings.whatif import gain
from ridgeline.mends import calls_in
from ridgeline.profile import SourceRef

SPEEDUP = 2.5
"""Of products on a device; on consumer cards they gain far more (64 times)."""
ITEMSIZE = {"double": 8, "float": 4, "long int": 8, "int": 4, "c10::Half": 2, "c10::BFloat16": 2, "bool": 1}
FACTORISATION = re.compile(
    r"aten::(linalg_(cholesky|inv|solve|lu|ldl|qr|eig|svd|lstsq|det|slogdet|matrix_exp|pinv|householder)|_linalg_|cholesky|"
    r"triangular_solve|lu_solve|ormqr|geqrf|logdet|pinverse|inverse)"
)
"""Operations whose errors grow with the condition of a matrix: programs take double precision for them on purpose."""
MIN_ELEMENTS = 64
"""Scalars and small tables of constants are double in Python and cost nothing."""
LOOPED = 8
"""Times a step that a statement uses the tensor which brings double precision, from which it is a loop's or every layer's: a
conversion there would be made as many times, so that the line to change is the one that makes the tensor."""


def rule(facts: Facts) -> list[Candidate]:
    rows = [r for r in facts.recorded_work if _is_double(facts, r)]
    if not rows:
        return []
    claims, saving = _on_cpu(facts, rows) if facts.on_cpu else gain(facts, {row: _left(facts, row) for row in rows})
    total = facts.time_of(rows)
    lines = facts.by_line(rows)  # one cause, usually: double precision spreads from where it entered
    asked = _asked_for(facts)
    factorises = next((name for r in rows for name in facts.chain_of(r) if FACTORISATION.match(name)), None)
    meant = asked or factorises is not None
    most = next((at for at, _ in lines if at is not None), None)
    enters = entry(facts, rows, MIN_ELEMENTS)
    named = enters.at if enters is not None else most
    made = _made(facts, named) if named is not None else None
    here = made if made and enters and _is_made_there(enters) else enters.at if enters else most
    return [
        Candidate(
            code="float64",
            title="Arithmetic in double precision",
            fact=f"On float64 tensors {words.things(len(rows) / facts.n, 'operation')} {facts.per} take "
            f"{words.time(facts.per_step(total))}{_where(here, most, enters, made)}"
            + (
                " The program asks for float64 by name."
                if asked
                else f" They go into {factorises}, which loses digits fast: double precision may well be meant."
                if meant
                else ""
            ),
            advice=""
            if meant
            else f"Make the tensor float32 {_mended_at(here, made)} (NumPy's arrays are float64 unless they are told otherwise). "
            "This changes numerics.",
            at=here,
            cost_us=total,
            saving_us=None if meant else saving,
            claims=None if meant else claims,
            stands_for=facts.fresh.share,
            noted=True,  # where the host sets the pace they cost nothing today
            hint=meant,
            evidence={
                "asked_for": asked,
                "factorisation": factorises,
                "operations_per_step": len(rows) / facts.n,
                "assumed_speedup": _speedup(facts, rows),
                "changes_numerics": True,
                "threshold_elements": MIN_ELEMENTS,
                "enters": _place(enters.at) if enters else None,
                "made": _place(made) if made else None,
                "threshold_uses": LOOPED,
                "related": _related(facts, lines, here, enters, made),
            },
        )
    ]


def _on_cpu(facts: Facts, rows: list[int]) -> tuple[Spans, float]:
    """The operations' own time, and what of it goes: of what they compute, less what new memory costs them in the recording alone, so
    that it is a share of the unprofiled step."""
    goes = sum(_own(facts, row) * (1.0 - _left(facts, row)) for row in rows)
    return facts.claims_of(rows), goes * facts.fresh.share


def _own(facts: Facts, row: int) -> float:
    """Without new memory."""
    return float(facts.work.time[row] - facts.fresh.of_op[int(facts.work.op[row])])


def _made(facts: Facts, at: SourceRef) -> SourceRef | None:
    """The statement that makes what is double at another, where the text tells."""
    for path, tree, text in trees(facts):
        if path == at.file:
            line = next(iter(makers(tree, at.line)), None)
            return SourceRef(file=path, line=line, text=line_of(text, line)) if line is not None else None
    return None


def _is_made_there(enters: Entry) -> bool:
    """Whether the line to change is the one that makes the tensor: it is used again and again, or at several statements."""
    return enters.times >= LOOPED or bool(enters.others)


def _where(here: SourceRef | None, most: SourceRef | None, enters: Entry | None, made: SourceRef | None) -> str:
    """What there is to say of places, each said once."""
    if here is None or most is None or enters is None:
        return f", most of it here, of what {_name(made)} makes." if made else ", most of it here."
    said, parts = {(here.file, here.line)}, []
    if not _same(here, enters.at):
        said.add((enters.at.file, enters.at.line))
        parts += ["the tensor that brings them is made here", f"it meets float32 at {_name(enters.at)}"]
    else:
        parts.append("they enter here")
        if made is not None:
            said.add((made.file, made.line))
            parts[-1] += f", by what {_name(made)} makes"
    if (most.file, most.line) not in said:
        parts.append(f"most of the time goes into {_name(most)}")
    elif _same(here, most):
        parts.append("most of it goes here as well")
    return f": {'; '.join(parts)}."


def _mended_at(here: SourceRef | None, made: SourceRef | None) -> str:
    return "where it enters" if made is None else "here" if here and _same(here, made) else f"at {_name(made)}"


def _related(
    facts: Facts,
    lines: list[tuple[SourceRef | None, list[int]]],
    here: SourceRef | None,
    enters: Entry | None,
    made: SourceRef | None,
) -> list[dict[str, object]]:
    """The way that they take first, then where most of the time goes."""
    way = [(made, "makes what is double")] if made else []
    way += [(at, "meets float32") for at in ((enters.at, *enters.others) if enters else ())]
    told = [{**_place(at), "text": text} for at, text in way if here is None or not _same(at, here)]
    known = {(t["file"], t["line"]) for t in told}
    return [*told, *(r for r in related(facts, lines, here) if (r["file"], r["line"]) not in known)][: RELATED + 1]


def _place(at: SourceRef) -> dict[str, object]:
    return {"file": at.file, "line": at.line}


def _name(at: SourceRef) -> str:
    return f"{at.file.rsplit('/', 1)[-1]}:{at.line}"


def _same(one: SourceRef, other: SourceRef) -> bool:
    return (one.file, one.line) == (other.file, other.line)


def _asked_for(facts: Facts) -> bool:
    """Whether the program says that it means double precision: ``torch.set_default_dtype(torch.float64)``, or a name of its own for
    the type that it computes in (``DTYPE = torch.float64``, a field of its configuration), which it then asks for."""
    for _, tree, _ in trees(facts):
        for call in calls_in(tree, "set_default_dtype"):
            if any(_is_double_type(value) for value in [*call.args, *(k.value for k in call.keywords)]):
                return True
        named = set(_named_types(tree))
        if named and any(_asks_for(node, named) for node in ast.walk(tree)):
            return True
    return False


def _is_double_type(value: ast.expr | None) -> bool:
    return isinstance(value, (ast.Attribute, ast.Name)) and ast.unparse(value).endswith(("float64", "double"))


def _named_types(tree: ast.Module) -> Iterator[str]:
    """Names that a module or a class gives to double precision."""
    bodies = [tree.body, *(n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef))]
    for body in bodies:
        for node in body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_double_type(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (t.id for t in targets if isinstance(t, ast.Name))


def _asks_for(node: ast.AST, named: set[str]) -> bool:
    """``dtype=NAME``, ``x.to(NAME)``, ``x.to(config.NAME)``."""
    if not isinstance(node, ast.Call):
        return False
    given = [k.value for k in node.keywords if k.arg == "dtype"]
    given += node.args if isinstance(node.func, ast.Attribute) and node.func.attr == "to" else []
    return any(
        (isinstance(v, ast.Name) and v.id in named) or (isinstance(v, ast.Attribute) and v.attr in named) for v in given
    )


def _is_double(facts: Facts, row: int) -> bool:
    op = int(facts.work.op[row])
    types = facts.types_of(op)
    if "double" not in types:
        return False
    dims = facts.dims_of(op)
    return any(kind == "double" and _elements(shape) >= MIN_ELEMENTS for kind, shape in zip(types, dims))


def _speedup(facts: Facts, rows: list[int]) -> float:
    """Of all of them together."""
    total = sum(float(facts.work.time[r]) for r in rows)
    stays = sum(float(facts.work.time[r]) * _left(facts, r) for r in rows)
    return total / stays if stays > 0 else SPEEDUP


def _left(facts: Facts, row: int) -> float:
    """What part of a row's time stays in single precision. On a device an operation that is no product takes as long as its bytes,
    read and written: half of those that are double."""
    op = int(facts.work.op[row])
    if facts.on_cpu:
        return left(facts, op, _own(facts, row))
    if product_of(facts, row) >= 0:
        return 1.0 / SPEEDUP
    shapes = list(zip(facts.types_of(op), facts.dims_of(op)))
    before = sum(_elements(shape) * ITEMSIZE.get(kind, 0) for kind, shape in shapes)
    double = sum(_elements(shape) * ITEMSIZE["double"] for kind, shape in shapes if kind == "double")
    # The result is as large as the largest operand, and double as well.
    result = max(_elements(shape) for _, shape in shapes) * ITEMSIZE["double"]
    return 1.0 - 0.5 * (double + result) / (before + result)


def _elements(shape: list[int]) -> int:
    count = 1 if shape else 0
    for size in shape:
        count *= size
    return count
