"""What one streaming multiprocessor does in a clock, by compute capability, and how fast data moves around it.

Sources: CUDA C++ Programming Guide, "Arithmetic instructions" (results per clock per multiprocessor); NVIDIA's A100, H100
and Blackwell architecture papers (matrix rates, shared memory and L2 ports). What is not documented was read off Nsight
Compute on an H200 and is marked so.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.roofline.inputs import DeviceSpec, KernelInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    issue: float = 4.0
    """Warp instructions a clock (one of each of four schedulers)."""
    special: float = 0.5
    """Warp instructions a clock of the special-function unit: 16 lanes."""
    alu: float = 2.0
    """Warp instructions a clock of the integer and comparison unit: 64 lanes."""
    multiply: float = 4.0
    """Of the unit for single-precision sums and products: 128 lanes; 64 before sm_86 and on sm_80, half of the schedulers' rate."""
    heavy: float = 2.0
    """Of the half of the multiply unit that does wide integer products."""
    load_store: float = 1.0
    """Warp instructions a clock: 32 lanes."""
    double: float = 2.0
    """Warp instructions a clock of the double-precision unit: 64 lanes on data-centre parts."""
    tensor: float = 4096.0
    """FLOPs a clock of the matrix units in bf16 and fp16 (dense)."""
    shared_bytes: float = 128.0
    """Bytes a clock of shared memory."""
    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    shared_capacity: int = 233472
    l2_read_bytes: float = 77.0
    """Bytes of whole lines a clock and multiprocessor that the second-level cache serves, and"""
    l2_write_bytes: float = 19.3
    """that it takes: 20 and 5 TB/s on an H200 (132 multiprocessors, 1.965 GHz), read off Nsight Compute. They stand for one
    request of 128 bytes, and for one 32-byte sector written, a clock and slice."""
    l2_data_bytes: float = 54.0
    """Bytes of data that it serves where the first-level cache keeps nothing back (factors of products, read off the same: eight
    products of generated code and two of a person's take 1.8 to 2.5 percent for a byte, this is the least)."""


HOPPER = Architecture()
BY_CAPABILITY: dict[tuple[int, int], Architecture] = {
    (7, 0): Architecture(multiply=2.0, double=1.0, tensor=1024, shared_capacity=98304, warps=64, l2_read_bytes=32),
    (7, 5): Architecture(
        multiply=2.0, double=0.0625, tensor=1024, shared_capacity=65536, warps=32, blocks=16, l2_read_bytes=32
    ),
    (8, 0): Architecture(multiply=2.0, double=1.0, tensor=2048, shared_capacity=167936),
    (8, 6): Architecture(double=0.0625, tensor=512, shared_capacity=102400, warps=48, blocks=16),
    (8, 9): Architecture(double=0.0625, tensor=512, shared_capacity=102400, warps=48, blocks=24),
    (9, 0): HOPPER,
    (10, 0): Architecture(tensor=8192, double=2.0),
    (12, 0): Architecture(tensor=512, double=0.0625, shared_capacity=102400, warps=48, blocks=24),
}

RAMP_US = 2.5
"""From launch to the last byte of an empty memory pipeline, on a cold cache: read off Nsight Compute on an H200."""
COLD_US, WARM_US = 1.5, 20.0
"""What the shortest kernel loses when it finds nothing in cache, and the duration from which none does (same source)."""
REUSED = 0.5
"""Share of the time that its bytes take from memory up to which a product works on what is in cache: one that streams more finds
no less of it cold."""
DRAINING, DRAINED = 0.7, 1.05
"""Share of its time that streaming takes from which a kernel is taken to wait for its writes to drain in the step, and
beyond which it cannot have streamed: its data came from cache."""
DRAM_EFFICIENCY = 0.92
"""Share of the pins' rate that streaming kernels reach once the pipeline is full: 4.4 of 4.8 TB/s on an H200, 170 kernels that move
30 to 600 MB (alone 4.56 for reads, 4.07 for writes)."""
DIRTY_SHARE = 0.44
"""Share of the second-level cache in which a kernel's last writes stay when it ends, at most: 22 of 50 MB on an H200. They keep
their share of what moves: a third of the cache beside twice as many reads (130 kernels within a fifth)."""
LAST_WRITES = 0.2
"""Share of the time of such writes that a kernel saves by leaving them in the cache (the same 170 durations)."""
BEFORE = 0.5
"""Share of the delay by writes of the kernels before that one which streams has in a step (durations under Nsight Compute)."""
LONG_US = 100.0
TENSOR_CLOCK_SHORT, TENSOR_CLOCK_LONG = 0.89, 0.83
"""Clock under dense matrix work over the highest clock: power limits it, evenly more within some 100 us (counted instructions
over utilisation and time of 340 products on an H200)."""


def architecture(device: DeviceSpec) -> Architecture:
    """Of the device's compute capability, the nearest older one where it is not listed; Hopper's where unknown."""
    capability = device.properties.get("capability")
    if not capability:
        return HOPPER
    key = (int(capability[0]), int(capability[1]))
    older = [k for k in BY_CAPABILITY if k <= key]
    return BY_CAPABILITY[max(older)] if older else BY_CAPABILITY[7, 0]


def blocks_per_sm(kernel: KernelInput, arch: Architecture) -> int | None:
    """Blocks that fit on one multiprocessor at once: limited by warps, registers, shared memory, and a fixed number."""
    if not kernel.block:
        return None
    threads = 1
    for n in kernel.block:
        threads *= max(1, n)
    warps = -(-threads // 32)
    limit = min(arch.blocks, arch.warps // warps if warps else arch.blocks)
    if kernel.registers:
        per_warp = -(-kernel.registers * 32 // 256) * 256
        limit = min(limit, arch.registers // (per_warp * warps))
    if kernel.shared_memory:
        limit = min(limit, arch.shared_capacity // (kernel.shared_memory + 1024))
    return max(1, limit)


def waves(kernel: KernelInput, device: DeviceSpec) -> float | None:
    """Blocks of the launch over blocks that the device holds at once; None where grid or device is not known."""
    per_sm = blocks_per_sm(kernel, architecture(device))
    if not kernel.grid or per_sm is None or not device.sm_count:
        return None
    blocks = 1
    for n in kernel.grid:
        blocks *= max(1, n)
    return blocks / (per_sm * device.sm_count)
