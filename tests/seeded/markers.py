"""Seeded programs: ordinary scripts with marks in comments, which are taken out before they run.

``# finds: CODE`` at the end of a line: that finding is expected on that line (``CODE CODE`` for two).
``# may: CODE`` at the end of a line: that finding is right there too, but not asked for.
``# mend: TEXT`` on a line of its own: in the mended program TEXT replaces the line above it (several in a row: the first
replaces it, the others follow).
``# options: …`` in the first lines: command-line options of ``ridgeline profile`` for it.

Line numbers stay as they are. Standard library only: the recording on a device machine uses it as well.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

FINDS = re.compile(r"\s*# finds: ([a-z0-9 -]+)$")
MAY = re.compile(r"\s*# may: ([a-z0-9 -]+)$")
STEPS = re.compile(r"(?<=^def main\(steps: int = )\d{1,3}(?=\))", re.MULTILINE)
MANY = "4000"
MEND = re.compile(r"^(\s*)# mend: ?(.*)$")
OPTIONS = re.compile(r"^# options: (.*)$")


@dataclass(frozen=True)
class Seeded:
    name: str
    faulty: str
    """As it runs: without marks."""
    mended: str | None
    """The same with the fault mended; None where the mend is not one of a few lines."""
    expected: tuple[tuple[str, int], ...]
    """(finding code, line); empty for a clean program."""
    options: tuple[str, ...] = field(default=())
    allowed: tuple[tuple[str, int], ...] = field(default=())

    @property
    def recorded(self) -> str:
        """The faulty program with more steps than a recording needs: it ends with the recording, not in the middle of it."""
        return STEPS.sub(MANY, self.faulty)

    @property
    def digests(self) -> frozenset[str]:
        """SHA-256 of the texts that a recording of this program, as it stands now, may have kept."""
        return frozenset(hashlib.sha256(text.encode()).hexdigest() for text in (self.faulty, self.recorded))


def read(path: Path) -> Seeded:
    """One program. Raises ValueError for a mark that follows nothing."""
    expected: list[tuple[str, int]] = []
    allowed: list[tuple[str, int]] = []
    faulty: list[str] = []
    mended: list[str] = []
    options: tuple[str, ...] = ()
    mends = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        may = MAY.search(line)
        if may is not None:
            allowed += [(code, number) for code in may.group(1).split()]
            line = line[: may.start()]
        mend, found, option = MEND.match(line), FINDS.search(line), OPTIONS.match(line)
        if mend is not None:
            if not faulty:
                raise ValueError(f"{path}:{number}: a mend without a line above it")
            mends = True
            replaced = MEND.match(path.read_text(encoding="utf-8").splitlines()[number - 2]) is None
            if replaced:
                mended[-1] = ""
            faulty.append("")
            mended.append(mend.group(1) + mend.group(2))
            continue
        if option is not None:
            options = tuple(option.group(1).split())
        if found is not None:
            expected += [(code, number) for code in found.group(1).split()]
            line = line[: found.start()]
        faulty.append(line)
        mended.append(line)
    return Seeded(
        name=path.stem,
        faulty="\n".join(faulty) + "\n",
        mended="\n".join(mended) + "\n" if mends else None,
        expected=tuple(expected),
        options=options,
        allowed=tuple(allowed),
    )


def read_all(folder: Path) -> list[Seeded]:
    """Programs of a folder by name."""
    return [read(path) for path in sorted(folder.glob("*.py"))]
