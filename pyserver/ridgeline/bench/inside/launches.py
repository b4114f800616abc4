"""A ``@triton.jit`` kernel with the grid and the options of one of its launches, called like a generated kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Launch:
    """Called with the arguments in the order of the signature. ``launchers`` says what the last call compiled."""

    def __init__(self, kernel: Any, launch: dict[str, Any]) -> None:
        self.kernel, self.launch = kernel, launch
        self._bound = kernel[tuple(launch["grid"])]
        self._options = dict(launch["options"])
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> None:
        self._compiled = self._bound(*arguments, **self._options)

    @property
    def launchers(self) -> list[Any]:
        """As of Inductor's kernels: configuration, registers, spills, shared memory. Triton's interpreter compiles nothing."""
        metadata = getattr(self._compiled, "metadata", None)
        if metadata is None:
            return []
        config = ", ".join(f"{name}: {getattr(metadata, name)}" for name in ("num_warps", "num_stages", "num_ctas")
                           if hasattr(metadata, name))  # fmt: skip
        return [
            SimpleNamespace(
                config=config,
                n_regs=getattr(self._compiled, "n_regs", None),
                n_spills=getattr(self._compiled, "n_spills", None),
                shared=getattr(metadata, "shared", None),
            )
        ]
