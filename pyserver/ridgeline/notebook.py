"""The profile in a notebook: pandas tables over the document."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.profile import ProfileDocument

if TYPE_CHECKING:
    import pandas as pd


class Profile:
    """A finished profile. ``kernels``, ``lines`` and ``ops`` are data frames; ``document`` holds everything.

    >>> profile = Profile.load("run-folder")          # doctest: +SKIP
    >>> profile.kernels.nlargest(5, "total_us")       # doctest: +SKIP
    """

    def __init__(self, document: ProfileDocument) -> None:
        self.document = document

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """From a run folder or a ``profile.json``. Raises ``profile_io.UnreadableError``."""
        from ridgeline import profile_io

        return cls(profile_io.read(Path(path)))

    @property
    def kernels(self) -> pd.DataFrame:
        """One row a kernel, largest total first; nested fields (launch, source…) stay Python objects. Times in µs."""
        return self._frame(self.document.kernels)

    @property
    def lines(self) -> pd.DataFrame:
        """One row a source line; ``device_us`` adds up to the attributed device time."""
        return self._frame(self.document.lines)

    @property
    def ops(self) -> pd.DataFrame:
        """One row an (op, input shapes)."""
        return self._frame(self.document.ops)

    @staticmethod
    def _frame(rows: list[Any]) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in rows])
