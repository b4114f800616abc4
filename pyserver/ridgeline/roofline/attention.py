"""Scaled dot-product attention: 4·B·H·S·Sk·D FLOPs forward (two products), 2.5 times that backward (five), half of both where a
causal mask lets whole blocks be skipped (torch.utils.flop_counter, sdpa_flop_count and sdpa_backward_flop_count; FlashAttention-2,
section 4.1). Which unit binds depends on the kernel's softmax code, head size and mask."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ridgeline.roofline import attention_single
from ridgeline.roofline.aten import OTHER
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import rate_key
from ridgeline.roofline.gemm import OLD_INSTRUCTIONS, OLD_RATE, up
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.tensors import Tensor, base_name, tensors
from ridgeline.roofline.warp_fed import PROLOGUE

PRODUCTS = ("flash", "fmha", "sdpa", "attention", "mha_", "attn")
HELPERS = ("convert_dq", "compute_dot_do_o", "reduce_head", "lean", "convert", "dot_do_o", "preprocess", "combine")
BACKWARD_FACTOR = 2.5
MASK_KIND = 9
"""Position of ``custom_mask_type``."""
OLD_ISSUE, ISSUE = 20.0, 9.0
"""Warp instructions for 32 scores, twice as many backwards: softmax, scaling, masking; with older instructions. Read off Nsight Compute on an H200."""
ROWS = 256
"""Queries that a block works off at once, each of its warps with what it needs before and after."""
SHARED = {False: 1.56, True: 7.3}
"""Clocks of shared memory for 32 scores of heads 64 wide: tiles for the matrix units, forwards and backwards (same source)."""
TILE = re.compile(r"_([1-9]\d*)x([1-9]\d*)x([1-9]\d*)_\d+x\d+x\d+_cga")
"""Queries, keys and width of a block in the names of cuDNN's kernels."""
DIAGONAL = 128
"""Keys that a causal mask steps by: of blocks that it cuts, all scores are computed (instructions of the matrix units of seven
kernels, exactly)."""


@dataclass(slots=True, frozen=True)
class Attention:
    batch: int
    heads: int
    groups: int
    """Key and value heads."""
    queries: int
    keys: int
    width: int
    value_width: int
    itemsize: int
    type: str
    causal: bool
    backward: bool
    bias_bytes: int = 0

    @property
    def scores(self) -> float:
        full = float(self.batch * self.heads * self.queries * self.keys)
        return full / 2 if self.causal and self.queries > 1 else full

    @property
    def flops(self) -> float:
        forward = 2.0 * self.scores * (self.width + self.value_width)
        return forward * BACKWARD_FACTOR if self.backward else forward

    @property
    def read(self) -> float:
        queries = self.batch * self.heads * self.queries * self.width
        keys = self.batch * self.groups * self.keys * (self.width + self.value_width)
        return float((queries * (3 if self.backward else 1) + keys) * self.itemsize + self.bias_bytes)

    @property
    def write(self) -> float:
        out = self.batch * self.heads * self.queries * self.value_width
        keys = self.batch * self.groups * self.keys * (self.width + self.value_width)
        return float((out + keys if self.backward else out) * self.itemsize)


def attention(kernel: KernelInput) -> Attention | None:
    """Shapes from the arguments of an attention op, the heads in the second dimension; None for other ops."""
    name = base_name(kernel).lower()
    if "attention" not in name:
        return None
    backward = "backward" in name
    found = [t for t in tensors(kernel) if len(t.shape) == 4]
    start = 1 if backward and len(found) >= 4 else 0
    if len(found) < start + 3:
        return None
    q, k, v = found[start : start + 3]
    if not q.elements * k.elements * v.elements:
        return None
    if name.startswith(("_flash_attention", "_efficient_attention")):  # these take heads in the third dimension
        q, k, v = (swapped(t) for t in (q, k, v))
    bias = found[start + 3] if len(found) > start + 3 and not backward and is_bias(found[start + 3], q, k) else None
    causal = causal_of(kernel)
    return Attention(
        q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], q.itemsize, q.type, causal, backward,
        bias.distinct_bytes if bias else 0,
    )  # fmt: skip


def swapped(t: Tensor) -> Tensor:
    b, s, h, d = t.shape
    return Tensor(t.position, (b, h, s, d), None, t.type, t.itemsize)


def is_bias(t: Tensor, q: Tensor, k: Tensor) -> bool:
    return t.shape[-1] in (1, k.shape[2]) and t.shape[-2] in (1, q.shape[2])


def causal_of(kernel: KernelInput) -> bool:
    """``is_causal`` among the concrete arguments: the first boolean after the dropout probability, but for the overloads
    in which ``compute_log_sumexp`` precedes it, and the one that takes a kind of mask by number (1 and 2 are causal)."""
    name = base_name(kernel).lower()
    values = [str(v) for v in kernel.concrete_inputs or []]
    if name == "_efficient_attention_forward":
        return len(values) > MASK_KIND and values[MASK_KIND] in ("1", "2")
    flags = [v for v in values if v in ("True", "False")]
    late = ("efficient" in name or "cudnn" in name) and "backward" not in name and len(flags) > 1
    return bool(flags) and flags[1 if late else 0] == "True"


def blocks(work: Attention, symbol: str) -> tuple[float, int]:
    """Scores that whole blocks compute over those that count, and the width that heads are padded to."""
    tile = TILE.search(symbol)
    if tile is None:
        return 1.0, work.width
    queries, keys, width = (int(n) for n in tile.groups())
    filled = up(work.queries, queries) * up(work.keys, keys) / (work.queries * work.keys)
    if work.causal:
        filled *= min(2.0, 1 + DIAGONAL / work.keys)  # of which half counts: all at most
    return filled, up(work.width, width)


def demand(kernel: KernelInput, work: Attention) -> Demand:
    """The main kernel's bytes, FLOPs and instructions; a helper's bytes. ``doubtful`` for kernels of generations whose softmax
    code was not measured here."""
    symbol = kernel.symbol.lower()
    if any(mark in symbol for mark in HELPERS) or not any(mark in symbol for mark in PRODUCTS):
        rows = float(work.batch * work.heads * work.queries)
        size = rows * work.width * work.itemsize
        warps = math.prod(kernel.grid or (1,)) * -(-math.prod(kernel.block or (1,)) // 32)
        if "reduce_head" in symbol:  # gradients of a key or value that several heads share are added
            every = float(work.batch * work.keys * work.width * work.itemsize)
            issued = warps * 2 * OTHER
            return Demand(
                read=every * work.heads, write=every * work.groups, flops=0.0, issued=issued, guessed=True, cold=False
            )
        # before: the output times its gradient, and zeros in single precision that queries' gradients are added to
        before = "dot_do_o" in symbol
        write = rows * 4 * (1 + work.width) if before else size
        issued = warps * 2 * OTHER  # twelve launches: 141 to 181
        return Demand(read=2 * size, write=write, flops=0.0, issued=issued, guessed=True, cold=not before)
    result = Demand(read=work.read, write=work.write, flops=work.flops, flop_type=rate_key(work.type))
    if result.flop_type == "fp32":
        result.flop_type = "tf32"
    result.tensor_flops = work.flops
    result.cold = False
    result.guessed = True
    result.top = "softmax between the two products"
    if work.queries == 1:  # decoding: keys and values are what moves
        result.issued = 0.0
        return result
    hopper = "wgmma" in symbol or "sm90" in symbol
    rows = work.scores / 32
    if not hopper:
        old = bool(OLD_INSTRUCTIONS.search(kernel.symbol)) or "fmha_cutlass" in symbol or "flash_" in symbol
        result.tensor_rate = OLD_RATE if old else 1.0
        result.issued = rows * OLD_ISSUE * (2 if work.backward else 1)
        sides = (work.batch * work.heads, work.queries, work.keys, work.width, work.value_width)
        attention_single.demand(kernel, result, sides, work.scores / math.prod(sides[:3]))
        result.doubtful = True
        return result
    filled, width = blocks(work, kernel.symbol)
    rows *= filled
    result.tensor_flops *= filled * width / work.width
    pieces = work.batch * work.heads * -(-work.queries // ROWS)
    warps = -(-math.prod(kernel.block or (1,)) // 32)
    result.issued = rows * ISSUE * (2 if work.backward else 1) + pieces * warps * PROLOGUE * OTHER
    result.shared_clocks = 4 * rows * SHARED[work.backward] * width / 64
    return result
