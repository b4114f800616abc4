"""Roofline: what binds a kernel, as Nsight Compute's two Speed-of-Light figures would say, without counters.

:func:`estimate` is pure; parsing and walking of a kernel's source are cached by its text and configuration.
"""

from __future__ import annotations

from ridgeline.roofline.estimator import estimate
from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput

__all__ = ["DeviceSpec", "Estimate", "KernelInput", "estimate"]
