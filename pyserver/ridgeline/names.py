"""Kernel names as people read them. Standard library only."""

from __future__ import annotations

import re

_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\{anonymous\}::|_GLOBAL__N_\w*::")
_QUALIFIER = re.compile(r"\b(?:[A-Za-z_]\w*::)+(?=[A-Za-z_~])")
_RETURN_TYPE = re.compile(r"^(?:void|static|__global__|auto)\s+")


def short(name: str) -> str:
    """A C++ kernel's name less its return type, namespaces and parameters, template arguments at the top level only.

    >>> short("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, int>(int, float*)")
    'vectorized_elementwise_kernel<4, AddFunctor, int>'
    >>> short("triton_poi_fused_add_0")
    'triton_poi_fused_add_0'
    """
    if "::" not in name and "<" not in name:
        return name
    text = _RETURN_TYPE.sub("", _ANONYMOUS.sub("", name))
    head, arguments = _split(text)
    head = _QUALIFIER.sub("", head)
    if head.startswith("operator"):
        return head
    shown = [_QUALIFIER.sub("", _split(a)[0]).strip() for a in arguments]
    return f"{head}<{', '.join(shown)}>" if shown else head


def _split(text: str) -> tuple[str, list[str]]:
    """The part before the template's angle bracket (or the parameter list), and the template's arguments."""
    depth, start, last = 0, -1, 0
    arguments: list[str] = []
    for i, c in enumerate(text):
        if c == "<":
            depth += 1
            if depth == 1:
                start, last = i, i + 1
        elif c == ">" and depth:
            depth -= 1
            if depth == 0:
                return text[:start].strip(), [*arguments, text[last:i].strip()]
        elif c == "," and depth == 1:
            arguments.append(text[last:i].strip())
            last = i + 1
        elif c == "(" and depth == 0:
            return text[:i].strip(), []
    return text.strip(), []
