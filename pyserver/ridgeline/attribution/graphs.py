"""Kernels that a CUDA graph replays: no launching op, one correlation id for all; only their order and names are left.

A graph runs its nodes in the order in which the module's ``call`` launched them at capture (one stream). Generated
kernels carry their name, so they anchor; what lies between two anchors (library kernels) belongs to the library calls
between the same two lines. Where the numbers do not settle which, the launch keeps no call line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ridgeline.attribution.align import align
from ridgeline.inductor.module import CallSite, WrapperModule

# Launched beside a library call's own kernel: a workspace that is cleared before, partial sums that are added up after.
_BEFORE = re.compile(r"^Memset\b")
_AFTER = re.compile(r"splitK_?reduce|splitKreduce|reduce_?splitk|^Memcpy\b", re.IGNORECASE)


def _names(site: CallSite, module: WrapperModule) -> frozenset[str]:
    """What a generated kernel's device event may be called; empty for a library call."""
    if site.kind != "kernel":
        return frozenset()
    kernel = module.kernels.get(site.callee)
    return frozenset({site.callee, *((kernel.symbol, *kernel.members) if kernel is not None else ())})


def replay_places(names: Sequence[str], module: WrapperModule) -> tuple[int, ...]:
    """For the device events of a replay, in order of their start, the index of their call in ``module.calls``; -1 for none."""
    site_names = [_names(site, module) for site in module.calls]
    generated = frozenset().union(*site_names) if site_names else frozenset()
    anchors = [i for i, name in enumerate(names) if name in generated]
    kernel_sites = [i for i, own in enumerate(site_names) if own]
    matched = align([names[i] for i in anchors], [site_names[i] for i in kernel_sites], lambda name, own: name in own)
    places = [-1] * len(names)
    for row, place in zip(anchors, matched.places):
        if place >= 0:
            places[row] = kernel_sites[place]
    fixed = [(-1, -1), *((i, places[i]) for i in range(len(names)) if places[i] >= 0), (len(names), len(module.calls))]
    for (row, site), (next_row, next_site) in itertools.pairwise(fixed):
        between = [i for i in range(row + 1, next_row) if names[i] not in generated]
        libraries = [i for i in range(site + 1, next_site) if module.calls[i].kind != "kernel"]
        if len(between) == next_row - row - 1:
            for i, place in zip(between, _share([names[i] for i in between], libraries)):
                places[i] = place
    return tuple(places)


def _share(names: Sequence[str], sites: Sequence[int]) -> list[int]:
    """Library kernels of one gap among the library calls of the same gap."""
    if not sites:
        return [-1] * len(names)
    if len(sites) == 1:
        return [sites[0]] * len(names)
    main = [i for i, name in enumerate(names) if not _BEFORE.search(name) and not _AFTER.search(name)]
    if len(main) != len(sites):
        return [-1] * len(names)
    owner = dict(zip(main, sites))
    places: list[int] = []
    for i, name in enumerate(names):
        if i in owner:
            places.append(owner[i])
        elif _BEFORE.search(name):
            following = [k for k in main if k > i]
            places.append(owner[following[0]] if following else owner[main[-1]])
        else:
            preceding = [k for k in main if k < i]
            places.append(owner[preceding[-1]] if preceding else owner[main[0]])
    return places


def fits_module(names: Sequence[str], module: WrapperModule) -> bool:
    """Whether these device events, in order, hold all generated kernels of the module and no others."""
    site_names = [own for site in module.calls if (own := _names(site, module))]
    generated = frozenset().union(*site_names) if site_names else frozenset()
    found = [name for name in names if name in generated]
    strangers = [name for name in names if name.startswith("triton_") and name not in generated]
    return bool(site_names) and not strangers and align(found, site_names, lambda name, own: name in own).complete
