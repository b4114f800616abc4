"""Copies and fills by the copy engine: bytes as recorded; on one device each byte is read and written."""

from __future__ import annotations

from ridgeline.roofline.inputs import DeviceSpec, Estimate, KernelInput


def estimate(kernel: KernelInput, device: DeviceSpec) -> Estimate:
    count = kernel.copy_bytes
    if count is None or kernel.duration_us <= 0:
        return Estimate(reason="the bytes of this copy were not recorded.")
    on_device = "DtoD" in kernel.symbol or "Device -> Device" in kernel.symbol
    moved = 2 * count if on_device else count
    gb_s = moved / (kernel.duration_us * 1e-6) / 1e9
    if on_device or kernel.category == "memset":
        peak = device.properties.get("pin_gb_s") or device.bandwidth_gb_s
        pct = 100 * gb_s / peak if peak else None
        if pct is not None and pct > 105 and 0 < moved <= 1.2 * (device.l2_bytes or 0):
            return Estimate(
                bytes=moved,
                gb_per_s=gb_s,
                reason=f"{gb_s:.0f} GB/s, more than DRAM's rate: all of it fits the L2 cache.",
            )
        if pct is not None and pct > 105:
            return Estimate(
                bytes=moved, reason=f"{pct:.0f} % of DRAM peak: the bytes or the time of this copy are wrong."
            )
        if pct is not None and pct >= 60:
            reason = f"memory bound: {gb_s:.0f} GB/s, {pct:.0f} % of DRAM's rate."
            return Estimate(
                bytes=moved,
                gb_per_s=gb_s,
                bound="memory",
                resource="dram",
                confidence=0.9,
                memory_pct=min(100.0, pct),
                reason=reason,
            )
        if kernel.duration_us < 4:
            return Estimate(
                bytes=moved,
                gb_per_s=gb_s,
                bound="latency",
                cause="too_small",
                confidence=0.9,
                memory_pct=pct,
                reason="latency bound: a copy this small is mostly start and end.",
            )
        return Estimate(bytes=moved, gb_per_s=gb_s, memory_pct=pct)
    kind = "pageable" if "ageable" in kernel.symbol else "pinned" if "inned" in kernel.symbol else "host"
    return Estimate(bytes=moved, gb_per_s=gb_s, reason=f"{gb_s:.1f} GB/s over the link to the host ({kind} memory).")
