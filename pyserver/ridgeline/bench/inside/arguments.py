"""Arguments of kernels: made from descriptions (by the agent's own code, which is loaded by location), and copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeline.agent.made import CannotMake, make, make_all
else:
    from .from_agent import load

    _MADE = load("made")
    CannotMake, make, make_all = _MADE.CannotMake, _MADE.make, _MADE.make_all

__all__ = ["CannotMake", "copied", "described", "make", "make_all"]


def described(torch: Any, arguments: Any) -> list[Any]:
    """Shape, strides and type of tensors; None for all else."""
    return [
        {"size": list(value.shape), "stride": list(value.stride()), "dtype": str(value.dtype).removeprefix("torch.")}
        if isinstance(value, torch.Tensor)
        else None
        for value in arguments
    ]


def copied(torch: Any, arguments: Any) -> list[Any]:
    """Copies of the tensors among ``arguments`` with their strides, so that measuring leaves the originals alone.

    Tensors that share memory share it in the copies too (one kernel may read what it writes).
    """
    storages: dict[int, Any] = {}
    result = []
    for value in arguments:
        if not isinstance(value, torch.Tensor):
            result.append(value)
            continue
        storage = value.untyped_storage()
        key = storage.data_ptr()
        if key not in storages or not key:
            storages[key] = storage.clone()
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        result.append(empty.set_(storages[key], value.storage_offset(), value.size(), value.stride()))
    return result
