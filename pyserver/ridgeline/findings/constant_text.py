"""Which statements of a program's text make the same tensor each time they run, as far as the text tells: for ``constant-rebuilt``,
which asks the recording for the rest."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ridgeline.findings.numbers import Function, functions, is_number, number_fields, numbers_of

MAKERS = ("arange", "ones", "full", "eye", "linspace", "logspace", "tril_indices", "triu_indices", "tensor", "meshgrid")
"""Constructors of values that do not vary. ``zeros`` and ``empty`` make buffers to be written to, ``rand`` never the same."""
OF_TENSORS = ("tensor", "meshgrid")
"""Those that are given more than numbers."""
VARYING = ("rand", "normal", "bernoulli", "multinomial", "poisson", "empty", "dropout", "load", "from_numpy")
"""How the names of functions begin that give another value each time, or one from elsewhere."""
NUMBERS = ("len", "int", "float", "range", "list", "max", "min")
SIZES = ("size", "dim", "numel")
"""What gives a number, whatever it is asked of."""
MODULES = ("torch", "math", "np", "numpy", "nn", "F")


class Constant(NamedTuple):
    statement: ast.stmt
    known: bool
    """All names in it are known to be numbers or constants: no tensor can come from elsewhere."""
    pairs: int = 0
    """Where the others are ``self.NAME``, which may be numbers: operators between two constants in it. Were one of those names a
    tensor, more operations would take two."""
    operators: int = 0
    """All operators in it, then: so many operations at least."""
    function: int = 0
    """Line of the function that it stands in."""


def constants(tree: ast.Module) -> Iterator[Constant]:
    """Assignments within functions of an expression that is made of constants, to names that nothing writes into later. What one
    such assignment makes is a constant in the next, and in what is returned; so is what an object was given to keep, and what its methods
    and properties return."""
    kept: dict[ast.ClassDef | None, set[str]] = {None: set()}
    fields = number_fields(tree)
    for function, owner in functions(tree):
        if owner is not None and owner not in kept:
            kept[owner] = _with_returned(owner, tree, _kept(owner, tree, fields), fields)
        yield from _constants_of(function, owner, kept[owner], fields)


def _constants_of(
    function: Function, owner: ast.ClassDef | None, kept: set[str], fields: frozenset[str]
) -> Iterator[Constant]:
    made = set(kept)
    written = set(_written(function))
    numbers = numbers_of(function, owner, fields)
    assigned = Counter(name for node in ast.walk(function) for name in _names_assigned(node))
    again = _in_one_block(function, assigned)
    for node in _assignments(function):
        value, names = node.value, _targets(node)
        if value is None or names is None or not written.isdisjoint(names):
            continue
        told = {*made, *numbers, *MODULES, *NUMBERS}
        unknown = _names_in(value, sizes=False, fields=fields) - told
        held, known = (
            all(name.startswith("self.") for name in unknown),
            _names_in(value, sizes=True, fields=fields) <= told,
        )
        if isinstance(node, ast.Return) and not held:
            continue
        constant = _is_constant(value, made if held else set(), numbers)
        pairs, operators = _operators(value, made) if constant and held and not known else (0, 0)
        made -= again.intersection(names)  # what the name stood for before
        if constant:
            made |= {name for name in names if not unknown and (assigned[name] == 1 or name in again)}
            yield Constant(node, known, pairs, operators, function.lineno)


def _with_returned(owner: ast.ClassDef, tree: ast.Module, kept: set[str], fields: frozenset[str]) -> set[str]:
    """And ``self.NAME`` of methods and properties that take nothing and return constants alone, which may be made of one another; unless
    a class that derives from this one has its own."""
    heirs, known = list[ast.ClassDef](), {owner.name}
    classes = [c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and c is not owner]
    while more := [c for c in classes if c not in heirs and not known.isdisjoint(map(ast.unparse, c.bases))]:
        heirs += more
        known |= {c.name for c in more}
    own = {f.name for c in heirs for f in c.body if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))}
    stored = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    waiting = [
        f for f in owner.body if isinstance(f, ast.FunctionDef) and f.name not in own | stored and _takes_nothing(f)
    ]
    while found := [f for f in waiting if _returns_constants(f, owner, kept, fields)]:
        kept = kept | {f"self.{f.name}" for f in found}
        waiting = [f for f in waiting if f not in found]
    return kept


def _takes_nothing(function: ast.FunctionDef) -> bool:
    given = function.args
    names = [a.arg for a in [*given.posonlyargs, *given.args]]
    return names == ["self"] and not (given.vararg or given.kwonlyargs or given.kwarg)


def _returns_constants(function: ast.FunctionDef, owner: ast.ClassDef, kept: set[str], fields: frozenset[str]) -> bool:
    nodes = list(ast.walk(function))
    if any(
        isinstance(n, (ast.Yield, ast.YieldFrom, ast.Lambda)) or (isinstance(n, ast.FunctionDef) and n is not function)
        for n in nodes
    ):
        return False
    returned = {id(n) for n in nodes if isinstance(n, ast.Return)}
    made = {id(c.statement) for c in _constants_of(function, owner, kept, fields) if c.known}
    return bool(returned) and returned <= made


def _in_one_block(function: Function, assigned: Counter[str]) -> set[str]:
    """Names that are assigned several times, one after the other in the same block: none is carried from one round of a loop, or
    one branch, to another."""
    found: set[str] = set()
    for node in ast.walk(function):
        for block in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                plain = [
                    n
                    for n in block
                    if isinstance(n, ast.AnnAssign) or (isinstance(n, ast.Assign) and len(n.targets) == 1)
                ]
                here = Counter(name for n in plain for name in _targets(n) or [])
                found |= {name for name, count in here.items() if 1 < count == assigned[name]}
    return found


def _kept(owner: ast.ClassDef, tree: ast.Module, fields: frozenset[str]) -> set[str]:
    """``self.NAME`` that is a constant in all methods: a buffer, of whatever it was made once, or an attribute that ``__init__`` makes of
    constants, and nothing in the file writes to a ``.NAME`` or goes over buffers."""
    init = next((f for f in owner.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
    if init is None:
        return set()
    given: list[tuple[str, ast.expr, ast.AST]] = []
    buffers: set[str] = set()
    for node in ast.walk(init):
        if isinstance(node, ast.Call) and _called(node) == "register_buffer" and len(node.args) > 1:
            name, value = node.args[0], node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                given.append((name.value, value, node))
                buffers.add(name.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _held(node.targets[0]):
            given.append((_held(node.targets[0]), node.value, node.targets[0]))
    numbers = numbers_of(init, owner, fields)
    made = {
        name
        for constant in _constants_of(init, owner, set(), fields)
        if constant.known
        for name in _targets(constant.statement) or []  # type: ignore[arg-type]
    }
    mine = {id(target) for _, _, target in given}
    if any(isinstance(n, ast.Attribute) and n.attr in ("buffers", "named_buffers", "_buffers") for n in ast.walk(tree)):
        return set()
    changed = {name for n in ast.walk(tree) if id(n) not in mine for name in _changed(n)}
    told = {*made, *numbers, *MODULES, *NUMBERS}
    return {
        f"self.{name}"
        for name, value, _ in given
        if name not in changed
        and (
            name in buffers
            or (_is_constant(value, made, numbers) and _names_in(value, sizes=True, fields=fields) <= told)
        )
        and not any(_called(n)[:1].isupper() for n in ast.walk(value) if isinstance(n, ast.Call))  # a parameter learns
    }


def _held(target: ast.expr) -> str:
    """``NAME`` of ``self.NAME``, else empty."""
    plain = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
    return target.attr if plain and isinstance(target, ast.Attribute) else ""


def _changed(node: ast.AST) -> Iterator[str]:
    """``NAME`` of ``x.NAME = …``, ``x.NAME[…] = …``, ``x.NAME.fill_(…)``, ``out=x.NAME``, and of ``own(x.NAME)``, for what a function of
    the program's own does to it is not known."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.attr
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Attribute):
        yield node.value.attr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _in_place(node.func.attr):
        yield from (n.attr for n in ast.walk(node.func.value) if isinstance(n, ast.Attribute))
    elif isinstance(node, ast.Call):
        given = [k.value for k in node.keywords if k.arg == "out"]
        given += node.args if _root(node) not in MODULES else []
        yield from (n.attr for n in given if isinstance(n, ast.Attribute))


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
        return any(_is_made(n, made) or (isinstance(n, ast.Call) and _called(n) in MAKERS) for n in ast.walk(side))

    sides = [
        (n.left, n.right if isinstance(n, ast.BinOp) else n.comparators[0])
        for n in ast.walk(value)
        if isinstance(n, (ast.BinOp, ast.Compare))
    ]
    found = [constant(left) + constant(right) for left, right in sides]
    return sum(n == 2 for n in found), sum(n > 0 for n in found)


def _is_made(node: ast.AST, made: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return f"self.{_held(node)}" in made
    return isinstance(node, ast.Name) and node.id in made


def _names_assigned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def _names_in(value: ast.expr, *, sizes: bool, fields: frozenset[str]) -> set[str]:
    """Names and ``self.NAME``; what a size or one of the ``fields`` is asked of does not count, nor, without ``sizes``, what a constructor takes, which are
    numbers (the recording says whether they are the same in every step)."""
    found: set[str] = set()
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute) and (node.attr in ("shape", "device", "dtype") or f".{node.attr}" in fields):
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
    uses = any(_is_made(n, made) for n in ast.walk(value))
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
    """``torch`` of ``torch.ones(…)``, ``self.x`` of ``self.x.view(…)``, empty for ``x.new_ones(…)`` of something that is no name."""
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        if held := _held(node):
            return f"self.{held}"
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
