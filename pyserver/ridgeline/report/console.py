"""A rich console that passes nothing on to the terminal which its text brought along."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ridgeline.printable import printable


class SafeConsole(Console):
    """Escapes control characters in everything that is printed; its own styles and cursor codes stay.

    Text is escaped before it is laid out, so rows keep their width.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)
