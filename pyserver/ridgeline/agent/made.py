"""Tensors from their descriptions, in values that do real work: indices in range, numbers that stay numbers.

Shared with ``ridgeline bench``, whose part in the user's interpreter loads this file by its location.
"""

from __future__ import annotations

import itertools
from typing import Any


def make_all(torch: Any, described: list[Any], bound: int | None) -> list[Any]:
    """All of a list of descriptions; those that name one buffer share it, and one that is the same as another is that one."""
    buffers: dict[str, Any] = {}
    made: list[Any] = []
    for seed, one in enumerate(described):
        of = one.get("of") if isinstance(one, dict) else None
        if of is None:
            made.append(make(torch, one, bound, seed))
            continue
        if of["name"] not in buffers:
            whole = {
                "size": of["size"],
                "stride": [1] * len(of["size"]),
                "dtype": one["dtype"],
                "device": one["device"],
            }
            buffers[of["name"]] = make(torch, whole, bound, seed)
        made.append(torch.as_strided(buffers[of["name"]], one["size"], one["stride"], of["offset"]))
    for position, one in enumerate(described):
        if isinstance(one, dict) and one.get("same_as") is not None:
            made[position] = made[one["same_as"]]
    return made


def make(torch: Any, described: Any, bound: int | None, seed: int) -> Any:
    """A tensor of that size, stride, type and device; anything else comes back as it is. Raises ``CannotMake``.

    Integers are random below ``bound`` (the one that a kernel asserts, or the description's own), as a run's ``content`` was (its values, or random
    within its range), or zeros where nothing is known and more could reach outside of a buffer. Types that no random generator fills (fp8) are filled by conversion.
    """
    if not isinstance(described, dict):
        return described
    if "type" in described:
        return _type(torch, described)
    name = described["dtype"]
    dtype = getattr(torch, str(name), None)
    if dtype is None:
        raise CannotMake(f"this torch has no element type {name}")
    size, stride, device = described["size"], described["stride"], described["device"]
    if "value" in described:  # a scalar that a size is read from
        return torch.full(size, described["value"], dtype=dtype, device=device)
    extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    generator = torch.Generator(device="cpu").manual_seed(seed)
    if dtype == torch.bool:
        flat = torch.randint(0, 2, (extent,), generator=generator).to(dtype)
    elif dtype.is_complex:
        flat = torch.randn(extent, 2, generator=generator).view(torch.complex64).reshape(extent).to(dtype)
    elif dtype.is_floating_point:
        flat = torch.randn(extent, generator=generator).to(dtype)
    elif described.get("content"):
        return _like(torch, described, dtype, extent, generator)
    else:
        bound = described.get("bound", bound)
        top = min(bound, torch.iinfo(dtype).max) if bound and size else 1
        flat = torch.randint(0, max(top, 1), (extent,), generator=generator).to(dtype)
    return torch.as_strided(flat.to(device), size, stride)


def _like(torch: Any, described: dict[str, Any], dtype: Any, extent: int, generator: Any) -> Any:
    """Integers as a run had them: {low, high, sorted} and, of few, their ``values``."""
    size, stride, content = described["size"], described["stride"], described["content"]
    values = content.get("values")
    if values is not None:
        made = torch.full((extent,), content["low"], dtype=dtype)
        flat = torch.as_strided(made, size, stride)
        for index, value in zip(itertools.product(*map(range, size)), values):
            flat[index] = value
        return torch.as_strided(made.to(described["device"]), size, stride)
    largest = torch.iinfo(torch.int64).max  # that is what random integers are made of
    low, high = min(content["low"], largest - 1), min(content["high"], largest - 1)
    made = torch.randint(low, high + 1, (extent,), generator=generator)
    if content.get("sorted"):
        made = made.sort().values
    return torch.as_strided(made.to(dtype).to(described["device"]), size, stride)


def _type(torch: Any, described: dict[str, Any]) -> Any:
    """An element type of torch's or Triton's that a kernel was given as a value."""
    if described["type"] == "torch":
        found = getattr(torch, described["value"], None)
    elif described["type"] == "triton.language":
        import triton.language

        found = getattr(triton.language, described["value"], None)
    else:
        found = None
    if found is None:
        raise CannotMake(f"a {described['value']} cannot be made from a description")
    return found


class CannotMake(Exception):
    """One line."""
