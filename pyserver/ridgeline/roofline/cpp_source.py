"""Bytes that a C++ kernel of Inductor moves, from its text: every distinct address once.

The text is scanned for loops, loads and stores in order; a loop's variable holds until the next loop of that name. What a
kernel wrote itself and reads again is not counted as read. Nothing is compiled or evaluated.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import lru_cache

from ridgeline.roofline.dtypes import itemsize
from ridgeline.roofline.symbolic import Access, Atom, union_elements

LONGEST = 500_000
POINTER = re.compile(r"(?:const\s+)?([A-Za-z_][\w:]*)\s*\*\s*(?:__restrict__\s+)?((?:in_out|in|out)_ptr\d+)\b")
TOKEN = re.compile(
    r"for\s*\(\s*int64_t\s+(?P<var>\w+)\s*=\s*static_cast<int64_t>\((?P<low>\d{1,18})LL?\)\s*;\s*\w+\s*<\s*static_cast<int64_t>\((?P<high>\d{1,18})LL?\)"
    r"|(?P<before>\.store\(|atomic_add(?:_vec)?\(&?|)\s*(?P<ptr>(?:in_out|in|out)_ptr\d+)\s*(?P<open>\+|\[)\s*static_cast<int64_t>\("
)
ALIAS = re.compile(r"auto\s+((?:in_out|in|out)_ptr\d+)\s*=\s*((?:in_out|in|out)_ptr\d+)\s*;")
INNER = "_inner"


@lru_cache(maxsize=1024)
def traffic(text: str) -> tuple[float, float] | None:
    """(read, written) bytes, None where the text is no such kernel."""
    if len(text) > LONGEST:
        return None
    sizes = {name: itemsize(kind.split("::")[-1]) or itemsize(kind) or 4 for kind, name in POINTER.findall(text)}
    if not sizes:
        return None
    alias = dict(ALIAS.findall(text))
    loops: dict[str, Atom] = {}
    accesses: dict[tuple[str, bool], list[Access]] = defaultdict(list)
    written_first: set[str] = set()
    for match in TOKEN.finditer(text):
        if match["var"]:
            count = max(1, int(match["high"]) - int(match["low"]))
            loops[match["var"]] = Atom(match["var"], count)
            continue
        name = str(alias.get(match["ptr"], match["ptr"]))
        index, rest = enclosed(text, match.end())
        if name not in sizes or index is None:
            continue
        store = bool(match["before"]) or (match["open"] == "[" and re.match(r"\]\s*[-+*/]?=(?!=)", rest) is not None)
        terms, offset, known = affine(index, loops)
        touched = Access(
            pointer=name,
            size=sizes[name],
            axes=frozenset(),
            terms=terms,
            offset=offset,
            trips=1,
            store=store,
            known=known,
        )
        if store and (name, False) not in accesses:
            written_first.add(name)
        accesses[name, store].append(touched)
    if not accesses:
        return None
    totals = {False: 0.0, True: 0.0}
    for (name, store), group in accesses.items():
        if name.startswith("out_") and not store and (name, True) not in accesses:
            totals[True] += union_elements(group) * sizes[name]  # handed to a function that writes it
        elif store or name not in written_first:
            totals[store] += union_elements(group) * sizes[name]
    return totals[False], totals[True]


def enclosed(text: str, start: int) -> tuple[str | None, str]:
    """The text up to the parenthesis that closes the one before ``start``, and a little of what follows."""
    depth = 1
    for i in range(start, min(len(text), start + 2000)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[start:i], text[i + 1 : i + 12]
    return None, ""


def affine(index: str, loops: dict[str, Atom]) -> tuple[dict[Atom, int], int, bool]:
    """Terms, offset, and whether the form is known."""
    cleaned = (
        re.sub(r"(\d)LL?\b", r"\1", index.replace("static_cast<int64_t>", "")).replace("c10::", "").replace("/", "//")
    )
    try:
        node = ast.parse(cleaned.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return {}, 0, False
    found = form(node, loops)
    return (*found, True) if found is not None else ({}, 0, False)


def form(node: ast.expr, loops: dict[str, Atom]) -> tuple[dict[Atom, int], int] | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return {}, node.value
    if isinstance(node, ast.Name):  # anything but a loop's variable was loaded
        if node.id.endswith(INNER):  # runs within a step of the loop that it is named for
            return {}, 0
        return {loops.get(node.id) or Atom(node.id, most(loops), indirect=True): 1}, 0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = form(node.operand, loops)
        return ({a: -c for a, c in inner[0].items()}, -inner[1]) if inner else None
    if isinstance(node, ast.Call) and len(node.args) == 2:  # div_floor_integer and its like
        node = ast.BinOp(
            left=node.args[0], op=ast.FloorDiv() if "div" in ast.unparse(node.func) else ast.Mod(), right=node.args[1]
        )
    if not isinstance(node, ast.BinOp):
        return None
    left, right = form(node.left, loops), form(node.right, loops)
    if left is None or right is None:
        return None
    if isinstance(node.op, (ast.Add, ast.Sub)):
        sign = 1 if isinstance(node.op, ast.Add) else -1
        terms = dict(left[0])
        for atom, coefficient in right[0].items():
            terms[atom] = terms.get(atom, 0) + sign * coefficient
        return terms, left[1] + sign * right[1]
    if isinstance(node.op, ast.Mult):
        factor, other = (left, right) if not left[0] else (right, left)
        return ({a: c * factor[1] for a, c in other[0].items()}, other[1] * factor[1]) if not factor[0] else None
    if isinstance(node.op, (ast.Mod, ast.FloorDiv)) and not right[0] and right[1] > 0:
        whole = 1 + left[1] + sum(abs(c) * (a.count - 1) for a, c in left[0].items())
        count = min(right[1], whole) if isinstance(node.op, ast.Mod) else max(1, -(-whole // right[1]))
        return {Atom(ast.unparse(node), count, indirect=any(a.indirect for a in left[0])): 1}, 0
    return None


def most(loops: dict[str, Atom]) -> int:
    """A loaded index takes at most as many values as the outermost loop has trips."""
    return next(iter(loops.values())).count if loops else 1
