"""Where step markers come from: optimizer, batch fetch, the user's ``profiler.step()``. (Regions: ``inductor``.)"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

Mark = Callable[[str, Any], None]


def on_optimizer(torch: Any, mark: Mark) -> None:
    """A global hook after every ``optimizer.step()``; folded away where the user compiles the step."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        mark("optimizer", id(optimizer))

    register_optimizer_step_post_hook(after_step)


def on_profiler_module(module: ModuleType, mark: Mark) -> None:
    """``torch.profiler.profiler``: the user's ``profile.step()``."""
    profile: Any = module.profile  # type: ignore[attr-defined,unused-ignore]
    original = profile.step

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        mark("profiler_step", id(self))
        return original(self, *args, **kwargs)

    profile.step = step
