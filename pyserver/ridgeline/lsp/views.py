"""What is known of one open document: the rows of its index file, each with the line where it stands now."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline import index
from ridgeline.lsp.anchors import Anchors
from ridgeline.lsp.documents import Document, Edit, split_lines
from ridgeline.lsp.protocol import Freshness
from ridgeline.lsp.store import Library, ShownRun

Json = dict[str, Any]

AGREEING_LINES = 0.8
"""Part of a foreign file's rows whose text must be found in a document before the two are taken for the same file."""


@dataclass(slots=True)
class Row:
    """One annotated thing at a current zero-based line. ``data`` is the row of the index; see ``ridgeline.index.parts``."""

    kind: str
    """``line``, ``function`` or ``place`` (generated code; ``data["kernels"]`` are the kernel ids)."""
    line: int
    stale: bool
    share: float
    """Percent of the step, else of the device's time; 0 where neither is known."""
    data: Json

    @property
    def time_us(self) -> float:
        """What the row leads with: the whole time of what touches a line, a function's own sum, a place's launches."""
        value = self.data.get("unsplit_us", self.data.get("device_us", self.data.get("time_us")))
        return float(value or 0.0)


@dataclass(slots=True)
class Item:
    """A row of the index before it is known where it stands now."""

    kind: str
    share: float
    data: Json


@dataclass(slots=True)
class View:
    """A document joined with the run that is shown in it."""

    document: Document
    run: ShownRun
    entry: Json
    part: Json
    anchors: Anchors
    generated: bool
    verified: bool
    """The text that was profiled is known, so lines were compared with it."""
    matches: bool = True
    """Generated code only: the document is the profiled version, to the letter."""
    searched: Mapping[str, Json] = field(default_factory=dict)
    """The library's: gains that were verified in this session."""
    hottest: list[Item] = field(default_factory=list)
    """All items, those with the largest share first."""
    _by_line: dict[int, list[Item]] = field(default_factory=dict)
    """By profiled one-based line."""

    def __post_init__(self) -> None:
        items = [Item("line", _share(data), data) for data in self.part["rows"]]
        items += [Item("function", _share(data), data) for data in self.part["functions"]]
        items += [Item("place", _share(data), data) for data in _grouped(self.part)]
        for item in items:
            self._by_line.setdefault(item.data["line"], []).append(item)
        self.hottest = sorted(items, key=lambda item: (-item.share, item.data["line"]))

    @property
    def kernels(self) -> dict[str, Json]:
        kernels: dict[str, Json] = self.part["kernels"]
        return kernels

    @property
    def state(self) -> Freshness:
        if self.generated and not self.matches:
            return "other-version"
        return "edited" if self.anchors.edited else "fresh"

    def tuned(self, row: Row) -> Json | None:
        """What another configuration may gain of a row, or does: what was verified here goes before the profile's word."""
        tuned: Json | None = row.data.get("autotune")
        if row.kind == "place" and len(row.data["kernels"]) == 1:
            identity = row.data["kernels"][0]
            own = self.kernels[identity].get("autotune")
            tuned = {"kernel": identity, **own} if own else self.searched.get(identity)
        return {**tuned, **self.searched.get(tuned["kernel"], {})} if tuned else None

    def line_of(self, profiled: int) -> tuple[int, bool] | None:
        """Where a profiled (one-based) line stands now, zero-based, and whether it is stale; ``None`` if lost."""
        if self.generated:
            return (profiled - 1, False) if self.matches and profiled <= len(self.document.lines) else None
        i = self.anchors.index.get(profiled - 1)
        if i is None or self.anchors.lost[i]:
            return None
        return self.anchors.at[i], self.anchors.stale[i]

    def rows(self, least: float = 0.0) -> Iterator[Row]:
        """All rows with at least this share that still have a line, hottest first."""
        for item in self.hottest:
            if item.share < least:
                return
            row = self._row(item)
            if row is not None:
                yield row

    def rows_between(self, first: int, last: int) -> list[Row]:
        """Rows whose first line now stands between two zero-based lines, both included, in the order of lines."""
        if self.generated:
            lines: Iterable[int] = range(max(first, 0) + 1, min(last, len(self.document.lines) - 1) + 2)
        else:
            at = self.anchors.at
            found = range(bisect_left(at, first), bisect_right(at, last))
            lines = [self.anchors.spans[i][0] + 1 for i in found]
        rows = [self._row(item) for line in lines for item in self._by_line.get(line, ())]
        return [row for row in rows if row is not None]

    def rows_at(self, line: int) -> list[Row]:
        """Rows whose statement covers a current line; those that start on it come first."""
        found = [
            row
            for row in self.rows_between(line - self.anchors.longest, line)
            if row.line == line or (row.kind == "line" and line <= row.line + row.data.get("end", 0) - row.data["line"])
        ]
        return sorted(found, key=lambda row: (row.line != line, row.kind == "function"))

    def _row(self, item: Item) -> Row | None:
        where = self.line_of(item.data["line"])
        if where is None:
            return None
        stale = where[1] or (item.kind == "function" and self._edited_inside(item.data))
        return Row(item.kind, where[0], stale, item.share, item.data)

    def _edited_inside(self, function: Json) -> bool:
        """Whether a line that counts for a function was edited or is gone."""
        for i in range(self.anchors.index[function["line"] - 1], len(self.anchors)):
            if self.anchors.spans[i][0] >= function["end"]:
                return False
            if self.anchors.stale[i] or self.anchors.lost[i]:
                return True
        return False

    def apply(self, edit: Edit) -> bool:
        """Follows an edit of the document; returns whether the state of any row changed."""
        if self.generated:
            before = self.matches
            self.matches = self.document.lines == self.anchors.profiled
            return before != self.matches
        return self.anchors.apply(edit, self.document.lines)

    def recover(self) -> bool:
        """Looks for lost rows again in the whole text; returns whether any state changed."""
        if self.generated or not self.verified or not any(self.anchors.lost):
            return False
        before = (list(self.anchors.lost), list(self.anchors.stale))
        self.anchors.rebuild(self.document.lines)
        return before != (self.anchors.lost, self.anchors.stale)


def build_view(document: Document, path: str, text: str, library: Library) -> View | None:
    """The view of a document that was just opened (or whose run changed); ``None`` when no run has anything on it."""
    found = _entry_for(document, path, library)
    if found is None:
        return None
    run, entry = found
    part = run.part(entry["key"])
    if part is None:
        return None
    generated = entry.get("kind") == "generated"
    snapshot = index.snapshot_text(run.folder, entry)
    same = (
        entry.get("sha256") is not None
        and hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() == entry["sha256"]
    )
    profiled = split_lines(snapshot.removeprefix("\ufeff")) if snapshot is not None else None
    if profiled is None and same:
        profiled = list(document.lines)
    verified = profiled is not None
    anchors = Anchors(profiled if profiled is not None else _lines_from_rows(part, document.lines), _spans(part))
    view = View(document, run, entry, part, anchors, generated, verified, searched=library.searched)
    if generated:
        # Generated code is never edited in place: another text is another version, and its numbers would be wrong.
        view.matches = same or (snapshot is not None and document.lines == profiled)
        view.matches = view.matches or (not verified and entry.get("sha256") is None)
    elif verified:
        anchors.rebuild(document.lines)
    else:
        anchors.place(_positions_by_text(part, anchors, document.lines), document.lines)
    return view


def _entry_for(document: Document, path: str, library: Library) -> tuple[ShownRun, Json] | None:
    run = library.run_for(path)
    if run is not None:
        entry = run.files.get(path) or run.files.get(os.path.realpath(path))
        if entry is not None and entry.get("key"):
            return run, entry
    snapshot = _as_snapshot(path, library)
    if snapshot is not None:
        return snapshot
    for foreign, entry in library.foreign(path):
        if _agrees(foreign, entry, document):
            return foreign, entry
    return None


def _as_snapshot(path: str, library: Library) -> tuple[ShownRun, Json] | None:
    """A document that is a run's own copy of a profiled file."""
    for root in library.roots:
        try:
            parts = os.path.relpath(path, root).split(os.sep)
        except ValueError:
            continue
        if len(parts) < 4 or parts[0] == "..":
            continue
        run = library.find(f"{parts[0]}/{parts[1]}")
        name = "/".join(parts[2:])
        for entry in run.files.values() if run else ():
            if entry.get("snapshot") == name and entry.get("key"):
                assert run is not None
                return run, entry
    return None


def _agrees(run: ShownRun, entry: Json, document: Document) -> bool:
    """Whether a document is the same source as a file of a run from elsewhere: by digest, else by its rows' text."""
    part = run.part(entry["key"])
    if part is None:
        return False
    texts = [row["text"].strip() for row in part["rows"] if row.get("text")]
    snapshot = index.snapshot_text(run.folder, entry)
    if snapshot is not None:
        texts = [line.strip() for line in split_lines(snapshot) if line.strip()]
    if not texts:
        return False
    here = {line.strip() for line in document.lines}
    return sum(text in here for text in texts) >= AGREEING_LINES * len(texts)


def _spans(part: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Zero-based (first, last) of every statement, function head, finding (and related line) and event, one each line."""
    ends: dict[int, int] = {}
    for row in part["rows"]:
        ends[row["line"] - 1] = max(row.get("end", row["line"]) - 1, ends.get(row["line"] - 1, 0))
    for item in (*part["functions"], *part["findings"], *part["events"], *_related(part)):
        if item.get("line"):
            ends.setdefault(item["line"] - 1, item["line"] - 1)
    return sorted((first, max(first, last)) for first, last in ends.items() if first >= 0)


def _related(part: Mapping[str, Any]) -> list[Json]:
    """The lines of this file that its findings' evidence names, so that they follow edits too."""
    named = [item for f in part["findings"] for item in (f.get("evidence") or {}).get("related") or []]
    return [item for item in named if item.get("file") == part["path"] and isinstance(item.get("line"), int)]


def _lines_from_rows(part: Mapping[str, Any], current: list[str]) -> list[str]:
    """Stands in for a profiled text that is not there: what the rows say of their lines, else the document's own text."""
    longest = max(
        (item["line"] for key in ("rows", "findings", "events") for item in part[key] if item.get("line")), default=0
    )
    lines = list(current) + [""] * max(longest - len(current), 0)
    for row in part["rows"]:
        if row.get("text"):
            lines[row["line"] - 1] = row["text"]
    return lines


def _positions_by_text(part: Mapping[str, Any], anchors: Anchors, current: list[str]) -> list[int | None]:
    """Where rows stand when all that is known of the profiled text is each row's own line.

    On its line if that reads as it did, else on the only line that does; rows without a text stay on their line.
    """
    texts = {row["line"] - 1: row["text"].strip() for row in part["rows"] if row.get("text")}
    lines_of: dict[str, list[int]] = {}
    for number, line in enumerate(current):
        lines_of.setdefault(line.strip(), []).append(number)
    positions: list[int | None] = []
    for first, _ in anchors.spans:
        text = texts.get(first)
        if text is None:
            positions.append(first if first < len(current) else None)
        elif first < len(current) and current[first].strip() == text:
            positions.append(first)
        else:
            same = lines_of.get(text, [])
            positions.append(same[0] if len(same) == 1 else None)
    return positions


def _share(data: Mapping[str, Any]) -> float:
    for key in ("step_share_pct", "share_pct"):
        if data.get(key) is not None:
            return float(data[key])
    return 0.0


def _grouped(part: Mapping[str, Any]) -> list[Json]:
    """Places of generated code, one a line: its kernels, their time, and the shares of the step and of the device."""
    kernels = part["kernels"]
    by_line: dict[int, Json] = {}
    for place in part["places"]:
        kernel = kernels.get(place["kernel"])
        if kernel is None:
            continue
        group = by_line.setdefault(
            place["line"],
            {"line": place["line"], "kernels": [], "time_us": 0.0, "count": 0, "definition": False},
        )
        time_us = (
            place["time_us"]
            if place.get("time_us") is not None
            else float(kernel["total_us"])
            if place.get("definition")
            else 0.0
        )
        group["kernels"].append(place["kernel"])
        group["definition"] = group["definition"] or bool(place.get("definition"))
        group["time_us"] += time_us
        group["count"] += place.get("count") or (kernel["count"] if place.get("definition") else 0)
        part_of_kernel = time_us / kernel["total_us"] if kernel["total_us"] else 0.0
        for share in ("step_share_pct", "share_pct"):
            if kernel.get(share) is not None:
                group[share] = group.get(share, 0.0) + kernel[share] * part_of_kernel
    return [by_line[line] for line in sorted(by_line)]
