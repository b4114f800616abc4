"""The module that calls a kernel's own file: where a file has no harness, the call says its arguments.

Inductor writes a harness into a kernel's file only where ``TORCHINDUCTOR_BENCHMARK_KERNEL=1`` was set. The module that calls it
lies in the same cache and names the file in a comment (``# kernel path:``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ridgeline.bench import plan as plans
from ridgeline.bench.plan import Plan, PlanError
from ridgeline.inductor.files import MAX_FILE_BYTES
from ridgeline.inductor.module import is_wrapper, parse_wrapper

MOST = 5_000
"""Files of a cache that are looked into."""


def complete(plan: Plan, file: Path) -> None:
    """Give the kernel of a file without a harness the arguments of its first call that the text of a module tells."""
    (kernel,) = plan.kernels
    if all(site.problem is None for site in kernel.sites):
        return
    for path, text in _modules_that_name(file):
        names = [
            n for n, d in parse_wrapper(text, str(path)).kernels.items() if d.path and Path(d.path).name == file.name
        ]
        try:
            module = plans.read(text, str(path))
        except PlanError:
            continue
        for caller in module.kernels:
            site = next((one for one in caller.sites if one.problem is None), None)
            if caller.name in names and site is not None:
                kernel.sites = [site]
                plan.notes.append(f"arguments as in its call in {path.name}, line {site.line}")
                return


def _modules_that_name(file: Path) -> Iterator[tuple[Path, str]]:
    """Modules of the cache that ``file`` lies in (``CACHE/xx/NAME.py``) whose text has its name."""
    looked = 0
    for folder in sorted(file.parent.parent.glob("??")):
        for path in sorted(folder.glob("*.py")):
            looked += 1
            if looked > MOST:
                return
            try:
                if path == file or path.stat().st_size > MAX_FILE_BYTES:
                    continue
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if file.name in text and is_wrapper(text):
                yield path, text
