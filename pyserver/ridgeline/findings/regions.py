"""What runs within a compiled region, and whether it is compiled code.

A region (``Torch-Compiled Region``) encloses all that Dynamo's frame does. Generated code is called within it, in
``## Call CompiledFxGraph``; what lies in the region and not in a graph runs as it would without torch.compile: after a break,
or all of it where a break stands in a loop and Dynamo leaves the frame to Python.
"""

from __future__ import annotations

from functools import cached_property

from ridgeline.findings.facts import Facts
from ridgeline.findings.host import REGION_PREFIXES

GRAPH = "## Call CompiledFxGraph"
FUNCTION = "CompiledFunction"
REGION = "Torch-Compiled Region"
GENERATED = ("triton_", "cpp_fused", "graph_")
"""How generated kernels' names begin."""


class Regions:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[int, int] = {}

    @cached_property
    def _marks(self) -> tuple[str, ...]:
        """What encloses generated code. Older versions of torch mark the region only; there it counts, if there is generated
        code at all."""
        names = self.facts.names
        if any(n.startswith(GRAPH) for n in names):
            return (GRAPH, FUNCTION)
        generated = any(n.startswith(GENERATED) for n in names)
        return (FUNCTION, REGION) if generated else (FUNCTION,)

    def called_from_graph(self, op: int) -> int:
        """The outermost operator that generated code called at or around ``op``, -1 if none did."""
        below: list[int] = []
        found = -1
        for above in self.facts.ancestors(op):
            if above in self._known:
                found = self._known[above]
                break
            if self.facts.op_name(above).startswith(self._marks):
                found = below[-1] if below else -1
                break
            below.append(above)
        self._known.update(dict.fromkeys(below, found))
        return found

    def uncompiled(self) -> list[int]:
        """Rows of recorded work within a region that no generated code called and that is none itself."""
        facts = self.facts
        if not any(n.startswith(REGION) for n in facts.names):
            return []
        return [
            row
            for row in facts.recorded_work
            if self._in_region(int(facts.work.op[row]))
            and not facts.names[int(facts.work.name[row])].startswith(GENERATED)
        ]

    def _in_region(self, op: int) -> bool:
        """Whether the innermost mark around an op is a region's."""
        facts = self.facts
        if op < 0 or facts.op_name(op).startswith(REGION_PREFIXES):
            return False  # a place, not work
        for above in facts.ancestors(op):
            name = facts.op_name(above)
            if name.startswith((GRAPH, FUNCTION)):
                return False
            if name.startswith(REGION):
                return REGION not in self._marks
        return False
