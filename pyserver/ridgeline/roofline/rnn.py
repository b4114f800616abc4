"""Kernels of cuDNN's recurrent networks: an op launches many, of which the trace tells the grid but not the shapes.

A layer multiplies all steps of its input at once ([steps·batch, inputs] by [inputs, gates·hidden]) and, step by step, the
state ([batch, hidden] by [hidden, gates·hidden]); a pointwise kernel makes the new state of the gates (cuDNN developer guide,
``cudnnRNNMode_t``). Backwards, gradients take the same products the other way round. Which product a launch is follows from its
tiles: one a block, or more where as many blocks as the device has multiprocessors work them off.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.roofline import gemm
from ridgeline.roofline.costs import COST, SPECIAL
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import rate_key
from ridgeline.roofline.gemm import Product, tile_of
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.pointwise import STRIDED
from ridgeline.roofline.tensors import Tensor, base_name, tensor_lists, tensors
from ridgeline.roofline.warp_fed import programs

OPS = {"_cudnn_rnn", "_cudnn_rnn_backward"}
PERSISTENT = "persist"
"""In the names of kernels that keep the weights of the state in registers and go through all steps themselves."""
CELLS = ("elemwisernncell", "elementwise_fp", "elementwise_bp", "rnn_cell", "lstm_cell", "gru_cell")


@dataclass(slots=True, frozen=True)
class Recurrent:
    steps: int
    batch: int
    inputs: tuple[int, ...]
    """Widths of what the layers are given, each once."""
    hidden: int
    gates: int
    source: Tensor
    backward: bool

    @property
    def products(self) -> list[tuple[int, int, int]]:
        """(rows, columns, depth) of all that it may multiply."""
        every, made = self.steps * self.batch, self.gates * self.hidden
        if not self.backward:
            return [(self.batch, made, self.hidden), *((every, made, n) for n in self.inputs)]
        state = [(self.batch, self.hidden, made), *((every, n, made) for n in self.inputs)]
        return state + [(made, n, every) for n in (*self.inputs, self.hidden)]


def recurrent(kernel: KernelInput) -> Recurrent | None:
    """None for other ops, or where shapes are missing."""
    name = base_name(kernel)
    if name not in OPS:
        return None
    found = [t for t in tensors(kernel) if len(t.shape) == 3]
    weights = [s for s in next(iter(tensor_lists(kernel)), []) if len(s) == 2]
    if len(found) < 2 or len(weights) < 2 or not weights[1][1]:
        return None
    source, state = found[0], found[1]
    hidden, batch = weights[1][1], state.shape[1]
    gates, rest = divmod(weights[0][0], hidden)
    if rest or gates not in (1, 3, 4) or not batch or source.shape[-1] == 0:
        return None
    widths = tuple(sorted({n for _, n in weights} - {hidden}) or [hidden])
    steps = source.elements // (batch * source.shape[-1])
    return Recurrent(steps, batch, widths, hidden, gates, source, "backward" in name)


def demand(kernel: KernelInput, work: Recurrent) -> Demand | None:
    """None for kernels that are neither products nor cells."""
    tile = tile_of(kernel.symbol)
    if any(mark in kernel.symbol.lower() for mark in CELLS):
        return cell(work)
    if PERSISTENT in kernel.symbol.lower():
        return persistent(work)
    if tile is None or not any(mark in kernel.symbol.lower() for mark in ("gemm", "nvjet")):
        return None
    shape = chosen(work, tile, programs(kernel))
    if shape is None:
        return None
    m, n, k = shape
    size = work.source.itemsize
    result = gemm.demand(kernel, Product(1, m, n, k, size, size, work.source.type, float((m * k + k * n) * size)))
    result.guessed = True
    return result


def persistent(work: Recurrent) -> Demand:
    """All steps of a layer one after another: gates of the inputs, which were multiplied before, states and weights of the state. Nobody
    compared it with counters; what it waits for is the step before."""
    states = float(work.steps * work.batch * work.hidden)
    size = work.source.itemsize
    weights = float(work.gates * work.hidden**2 * size)
    fused = states * work.gates * work.hidden
    result = Demand(
        read=states * work.gates * size + weights,
        write=states * (work.gates + 1) * size,
        flops=2 * fused,
        flop_type=rate_key(work.source.type),
        guessed=True,
    )
    result.doubtful = True
    if size == 4:
        result.issued = fused / 32
    else:
        result.tensor_flops = 2 * fused
    result.top = "products of the state, a step after another"
    return result


def chosen(work: Recurrent, tile: tuple[int, int, int], blocks: int) -> tuple[int, int, int] | None:
    """The product with a tile for each block; else the smallest that gives every block one."""
    counted = []
    for m, n, k in work.products:
        tiles = min(-(-m // a) * -(-n // b) for a, b in (tile[:2], tile[1::-1]))
        counted.append((tiles, (m, n, k)))
    exact = [shape for tiles, shape in counted if tiles == blocks]
    if exact:
        return exact[0]
    return min(((tiles, shape) for tiles, shape in counted if tiles > blocks), default=(0, None))[1]


def cell(work: Recurrent) -> Demand:
    """The new state of one step. Forward: the gates of the input and of the state and the last state are read; gates, state and
    output are written, for the way back. Backwards: gates, states and gradients are read, gradients of gates and state written."""
    states = work.batch * work.hidden
    lasting = 1 if work.gates == 4 else 0  # only an LSTM has a state beside its output
    read = work.gates + 4 + lasting if work.backward else 2 * work.gates + 1
    write = work.gates + 1 if work.backward else work.gates + 1 + lasting
    size = work.source.itemsize
    result = Demand(
        read=float(states * read * size), write=float(states * write * size), flop_type="fp32", guessed=True
    )
    result.issued = states / 32 * STRIDED * (read + write)
    if not work.backward:
        for function, count in (("sigmoid", work.gates - 1), ("tanh", 1 + lasting)):
            result.issued += states / 32 * COST[function] * count
            result.special += states / 32 * SPECIAL.get(function, 0.0) * count
    result.top = "addresses, loads and functions of the gates"
    return result
