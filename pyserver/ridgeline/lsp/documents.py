"""Text of open documents, kept as lines the way LSP and Python count them.

pygls splits with :meth:`str.splitlines`, which also breaks at form feeds and other separators that neither LSP nor
Python's tokenizer counts; one form feed would shift all annotations below it. And it copies the whole text at every edit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lsprotocol import types
from pygls.workspace.position_codec import PositionCodec

_NEWLINE = re.compile(r"\r\n|\n|\r")


def split_lines(text: str) -> list[str]:
    """Lines without their terminators; always one more than there are terminators."""
    return _NEWLINE.split(text)


@dataclass(slots=True)
class Edit:
    """Lines ``first`` to ``first + len(old) - 1`` were ``old`` and became ``new``."""

    first: int
    old: list[str]
    new: list[str]


@dataclass(slots=True)
class Document:
    uri: str
    version: int | None
    language: str
    lines: list[str]
    codec: PositionCodec = field(default_factory=PositionCodec)
    opened_as: str | None = None
    """The text as the client sent it, until it is edited: its digest tells whether this is the file that was profiled."""

    @property
    def text(self) -> str:
        return self.opened_as if self.opened_as is not None else "\n".join(self.lines)

    def column(self, line: int, units: int) -> int:
        """Code-point column of a position in client units, clipped to the line."""
        text = self.lines[line]
        if text.isascii():
            return min(max(units, 0), len(text))
        count = 0
        for column, character in enumerate(text):
            if count >= units:
                return column
            count += self.codec.client_num_units(character)
        return len(text)

    def units(self, line: int, column: int) -> int:
        """Client units of a code-point column."""
        text = self.lines[line] if 0 <= line < len(self.lines) else ""
        return min(column, len(text)) if text.isascii() else self.codec.client_num_units(text[:column])

    def line_range(self, line: int, *, end_line: int | None = None) -> types.Range:
        """From the first character of a line that is no blank to the end of the line (or of ``end_line``)."""
        last = len(self.lines) - 1
        line, end = min(max(line, 0), last), min(max(line if end_line is None else end_line, 0), last)
        text = self.lines[line]
        start = len(text) - len(text.lstrip())
        return types.Range(
            start=types.Position(line=line, character=self.units(line, start)),
            end=types.Position(line=end, character=self.units(end, len(self.lines[end].rstrip()))),
        )

    def apply(self, change: types.TextDocumentContentChangeEvent) -> Edit:
        """Applies one change and returns it as whole lines; positions outside the text are clipped, as LSP asks."""
        self.opened_as = None
        if not isinstance(change, types.TextDocumentContentChangePartial):
            edit = Edit(0, self.lines, split_lines(change.text))
            self.lines = edit.new
            return edit
        last = len(self.lines) - 1
        start, end = change.range.start, change.range.end
        first = min(start.line, last)
        final = min(max(end.line, start.line), last)
        head = self.lines[first][: self.column(first, start.character) if start.line <= last else None]
        tail = self.lines[final][self.column(final, end.character) :] if end.line <= last else ""
        old = self.lines[first : final + 1]
        new = split_lines(head + change.text + tail)
        self.lines[first : final + 1] = new
        return Edit(first, old, new)
