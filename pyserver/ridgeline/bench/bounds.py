"""Which values an index may have, from the text of the kernel that reads it: whole, and by the argument it comes from."""

from __future__ import annotations

import re

BOUND = re.compile(r"<\s*(\d+)L?\)?\s*[),|&]?.*index out of bounds|index out of bounds: 0 <= \w+ < (\d+)")
"""The bound of an index as Triton (``tl.device_assert``) and C++ (``TORCH_CHECK``) kernels assert it."""

WRAP = re.compile(
    r"auto \w+ = (\d+)L;\n\s*auto (?:\w+) = c10::convert<int64_t>\(\w+\);\n\s*auto \w+ = [^;\n]*\+[^;\n]*;\n\s*auto \w+ = \w+ < 0;"
    r"|tl\.full\(\[[^\]]*\], (\d+), tl\.int32\)\n\s*\w+ = \w+ \+ \w+\n\s*\w+ = \w+ < 0\n"
)
"""Where nothing is asserted: the size that is added to a negative index (an index that counts from the end)."""

_ASSIGNED = re.compile(r"^\s*(?:auto\s+)?(?P<name>tmp\d+)\s*=(?!=)(?P<rest>.*)$")
_ASSERTED = re.compile(r"(?P<name>\w+)\s*\)?\s*<\s*(?P<bound>\d+)L?\b")
_MESSAGE = re.compile(r"index out of bounds: 0 <= (?P<name>\w+) < (?P<bound>\d+)")
_SIZE = re.compile(r"(?:^\s*|tl\.full\(\[[^\]]*\], |static_cast<int64_t>\()(?P<size>\d+)L?\b")
_NEGATIVE = re.compile(r"\b(?P<name>tmp\d+) < (?:0|VecType\(0\)|tl\.full)")
_FOLDED = re.compile(r"%|\bmod\w*\(|remainder")
"""Any number will do for what is taken modulo something."""
_WORDS = re.compile(r"\b(?:in_ptr|in_out_ptr)\d+\b|\btmp\d+\b")


def of(text: str) -> int | None:
    """The smallest bound that a kernel states of any index; None where it states none."""
    found = [int(a or b) for a, b in BOUND.findall(text)] or [int(a or b) for a, b in WRAP.findall(text)]
    return min(found) if found else None


def by_pointer(text: str) -> dict[str, int]:
    """Pointer argument -> the smallest bound of an index that is read through it.

    Values are followed from their load through assignments, line by line: names are used again in every loop. Where a value
    has been computed with, the bound of the result is taken for what it was computed from.
    """
    values: dict[str, frozenset[str]] = {}
    sizes: dict[str, int] = {}
    wrapped: dict[str, int] = {}
    found: dict[str, int] = {}
    target: str | None = None

    def hold(name: str, bound: int) -> None:
        for pointer in values.get(name, ()):
            found[pointer] = min(found.get(pointer, bound), bound)

    for row in text.splitlines():
        if "out of bounds" in row:
            match = _MESSAGE.search(row) or _ASSERTED.search(row)
            if match is not None:
                hold(match["name"], int(match["bound"]))
            continue
        assigned = _ASSIGNED.match(row)
        if assigned is None:
            if target is not None:  # the rest of a statement over several lines
                values[target] = values[target] | _read(row, values)
            continue
        rest = assigned["rest"]
        words = _WORDS.findall(rest)
        if "+" in rest:
            added = [sizes[word] for word in words if word in sizes]
            wrapped.update({word: added[0] for word in words if added and word not in sizes})
        negative = _NEGATIVE.search(rest)
        if negative is not None and negative["name"] in wrapped:
            hold(negative["name"], wrapped[negative["name"]])
        target = assigned["name"]
        held, size = _read(rest, values), _size(rest, sizes)
        values[target] = held
        sizes.pop(target, None)
        wrapped.pop(target, None)
        if size is not None:
            sizes[target] = size
    return found


def _read(text: str, values: dict[str, frozenset[str]]) -> frozenset[str]:
    """The pointers that an expression's value comes from. What is loaded comes from its pointer, not from where it lies."""
    if _FOLDED.search(text):
        return frozenset()
    words = _WORDS.findall(text)
    pointers = frozenset(word for word in words if not word.startswith("tmp"))
    return pointers or frozenset(pointer for word in words for pointer in values.get(word, ()))


def _size(text: str, sizes: dict[str, int]) -> int | None:
    """A plain number, or one that is only converted."""
    match = _SIZE.search(text)
    if match is not None and not _WORDS.search(text):
        return int(match["size"])
    words = _WORDS.findall(text)
    return sizes.get(words[0]) if len(words) == 1 and "convert" in text else None
