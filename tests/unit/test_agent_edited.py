"""A file that was edited while its code ran is told from one that was only touched, or written before it was imported."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import pytest

from ridgeline.agent.edited import edited

TEXT = "import math\n\ndef f(x):\n    y = x + 1\n    return [math.sin(v) for v in (x, y)]\n"


def ran(path: Path) -> list[CodeType]:
    """The code objects of ``f``, as the timeline has them."""
    module: dict[str, object] = {}
    exec(compile(TEXT, str(path), "exec"), module)
    return [module["f"].__code__]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (TEXT, False),
        ("# one line more\n" + TEXT, True),
        (TEXT.replace("x + 1", "x - 1"), True),
        (TEXT.replace("    y = x + 1\n", "    y = x + 1\n\n"), True),
        (TEXT + "\ndef g():\n    return 2\n", False),
        (TEXT.replace("import math", "import math, os"), False),
        ("def f(x:\n", True),
        ("", True),
    ],
)
def test_edits(tmp_path: Path, now: str, expected: bool) -> None:
    path = tmp_path / "m.py"
    code = ran(path)
    path.write_text(now)
    assert edited(str(path), code, since_ns=0) is expected
    assert edited(str(path), code, since_ns=path.stat().st_mtime_ns) is False


def test_what_is_not_there_is_not_edited(tmp_path: Path) -> None:
    assert edited(str(tmp_path / "none.py"), ran(tmp_path / "none.py"), since_ns=0) is False
    assert edited("<string>", ran(tmp_path), since_ns=0) is False
    assert edited("a\0b", ran(tmp_path), since_ns=0) is False
