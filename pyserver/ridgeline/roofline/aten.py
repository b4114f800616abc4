"""PyTorch's own kernels: pointwise, reductions, copies, gathers and scatters, normalisations, random fills. Bytes from the
op's recorded tensors; instructions from the kernel's kind and the function it computes."""

from __future__ import annotations

import math
import re

from ridgeline.roofline import aten_code, pointwise
from ridgeline.roofline.aten_issue import literal_list, machine_code, reduced, scanned, sizes_of
from ridgeline.roofline.costs import COST, DOUBLE, SPECIAL
from ridgeline.roofline.demand import Demand
from ridgeline.roofline.dtypes import itemsize, rate_key
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.pointwise import COMPARISONS, FILLS, UNARY
from ridgeline.roofline.tensors import Tensor, base_name, tensor_lists, tensors

OTHER = 80.0
"""Instructions a thread of a kernel of no known kind: its place, addresses, bounds, a few accesses; kernels that exchange between
threads besides take two of it. Read off Nsight Compute on an H200."""
BLOCK_THREADS = 128
"""Threads of a block of ``elementwise_kernel`` (ATen/native/cuda/thread_constants.h)."""
KINDS: dict[str, tuple[float, float]] = {
    "vectorized_layer_norm_kernel": (4.0, 0.3),
    "max_pool_backward_nchw": (4.0, 0.0),
}
"""Times of ``OTHER`` for a thread and for an element of kernels of PyTorch whose threads loop (same source)."""
REQUEST_BYTES = 128
"""What a request for a single sector costs the second-level cache: as much as one for a whole line."""
ROW_ELEMENT = 25.0
"""Warp instructions for 32 elements of ATen's normalisations and softmaxes: load, convert, statistics, function, store. A row that
a warp takes (or two at once) costs ``softmax_warp_forward`` two of ``OTHER`` beside: maximum and sum by shuffles, addresses (same source)."""
FUNCTIONS: dict[str, dict[str, float]] = {
    "gelu": {"erf": 0.75, "float": 3}, "gelu_backward": {"erf": 1, "exp": 1, "float": 8}, "silu": {"exp": 1, "divide": 1},
    "silu_backward": {"exp": 1, "divide": 1, "float": 4}, "sigmoid": {"sigmoid": 1}, "tanh": {"tanh": 0.7}, "exp": {"exp": 1}, "log": {"log": 1},
    "erf": {"erf": 1}, "sin": {"sin": 1}, "cos": {"sin": 1}, "pow": {"pow": 0.1}, "sqrt": {"sqrt_rn": 1}, "rsqrt": {"rsqrt": 1, "float": 4}, "div": {"divide": 1.1},
    "reciprocal": {"divide": 1}, "softplus": {"exp": 1, "log": 1}, "mish": {"exp": 1, "log": 1, "tanh": 1}, "elu": {"expm1": 1, "float": 8}, "log1p": {"log": 1},
    "atan2": {"log": 1}, "floor_divide": {"divide": 1}, "remainder": {"integer_divide": 1}, "native_dropout": {"philox": 0.3}, "bernoulli": {"philox": 0.3},
    "normal": {"philox": 0.4}, "uniform": {"philox": 0.3}, "random": {"philox": 0.3}, "rand": {"philox": 0.3}, "exponential": {"philox": 0.3, "log": 1},
}  # fmt: skip
BINARY = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "atan2", "remainder", "floor_divide", "fmod"}
GATHERS = {"embedding", "index_select", "gather", "index", "take", "_index", "take_along_dim", "embedding_renorm"}
SCATTERS = {"index_put", "_index_put_impl", "scatter", "scatter_add", "index_add", "index_copy", "embedding_dense_backward", "index_fill", "scatter_reduce", "masked_scatter"}  # fmt: skip
NORMS = {"native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_batch_norm", "cudnn_batch_norm", "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "rms_norm", "_fused_rms_norm", "batch_norm", "layer_norm", "cudnn_batch_norm_backward", "native_batch_norm_backward"}  # fmt: skip
BAGS = ("grad_weight", "sum_and_scatter")
"""Kernels of the gradient of an embedding bag that move its rows."""
SELECTIONS = {"topk", "kthvalue", "median", "mode"}
SELECT_BITS = 2
"""Bits of the keys that a pass of a radix selection decides (ATen/native/cuda/SortingRadixSelect.cuh)."""
RADIX, RADIX_VALUE = re.compile(r"radixSortKVInPlace<-?\d+, -?\d+, \d+, (\d+)"), 270.0
"""Values a thread, and instructions for 32 of them, of a sort of a slice by a block (``Sort.cu``), where the table does not have it."""
SELECT_KEY = {"computeBlockDigitCounts": (130.0, 21.0), "mbtopk::gatherTopK": (194.0, 67.0)}
"""Instructions a thread and a key of the two kernels of a selection that look at all of them, when it takes several blocks a slice (same source)."""
SORT_ISSUE, SORT_SHARED = 726.0, 317.0
"""Instructions, and clocks of shared memory, of a warp that sorts what was chosen, 16 values a slice (same source)."""
OPAQUE, COPIED = re.compile(r"OpaqueType<(\d+)"), re.compile(r"\{lambda\(([\w:<> ]+)\)#1\}")
ROWS = ("tensor_kernel_scan_innermost_dim", "reduce_kernel")
ORDERS = ("sort", "radix", "topk", "bitonic", "scan", "unique", "nonzero", "cub::", "thrust", "mode", "kthvalue")


def demand(kernel: KernelInput) -> Demand | None:
    """None where the op's tensors were not recorded, or the kernel is of a kind that is not modelled here."""
    result = by_kind(kernel)
    if result is not None and not any(mark in kernel.symbol for mark in KINDS):
        machine_code(result, kernel)
    return result


def by_kind(kernel: KernelInput) -> Demand | None:
    """From the kind of kernel and the function that it computes."""
    found = tensors(kernel)
    name = base_name(kernel)
    symbol = kernel.symbol
    if name == "cat" or (not found and tensor_lists(kernel)):
        return joined(kernel)
    if not found:
        return None
    lowered = symbol.lower()
    given = found
    if name in UNARY and len(found) == 2 and found[0].shape == found[1].shape:
        given, found = found, found[:1]  # the other is the result
    if name in BINARY and len(found) == 3 and found[2].elements == max(t.elements for t in found[:2]):
        found = found[:2]  # an out= variant's result is not read
    read, write, upper = moved(name, found, kernel)
    sources = found[1:] if name in ("copy", "_to_copy", "clone") and len(found) > 1 else found
    fetched = read + sum(t.fetched_bytes - t.distinct_bytes for t in sources) if read and not upper else read
    threads = float(math.prod(kernel.grid or (1,)) * math.prod(kernel.block or (1,)))
    room = pointwise.room(kernel)
    elements = float(broadcast(found, room) if room else max(t.elements for t in found))
    if upper:  # gathers and scatters work on the rows, not on the table
        elements = write / found[0].itemsize if write else threads
        if name in SCATTERS and len(found) > 1:
            elements = float(max(t.elements for t in found[1:]))
    if "vectorized_gather_kernel" in symbol:  # a block gathers a row, or up to 16 bytes a thread of it
        row = math.prod(found[0].shape[1:]) * found[0].itemsize
        write = float(math.prod(kernel.grid or (1,)) * row)
        read = min(write, float(found[0].distinct_bytes))
        fetched, elements, upper = read, write / found[0].itemsize, True
    if "collect_statistics" in symbol:  # the first pass of a normalisation: a mean and a deviation a channel
        write = 8.0 * found[0].shape[1] if len(found[0].shape) > 1 else 8.0
    part = threads * (pointwise.elements_of_thread(symbol) or pointwise.MOST_ELEMENTS) / elements if elements else 1.0
    if kernel.grid and part < 1 and "elementwise_kernel" in lowered and "grid_stride" not in lowered:
        # too few threads for the op's tensors: a step of it that works on something smaller
        read, write, fetched, elements = read * part, write * part, fetched * part, elements * part
    if (
        name in (*FILLS, "copy") and "elementwise_kernel" in lowered
    ):  # parts of sectors: these are fetched, and written whole
        gaps = found[0].sector_share - 1.0
        write, fetched = write * (1 + gaps), fetched + (write * (1 + gaps) if gaps else 0.0)
    result = Demand(read=read, write=write, fetched=fetched, flops=None, flop_type="fp32", upper_bound=upper)
    if name in ("copy", "_to_copy", "clone") and len(found) > 1 and "elementwise_kernel" in lowered:
        lines = lines_of_warp(found[0], found[1])
        result.shared_clocks = 4 * elements / 32 * sum(lines)
        result.scattered = max(lines) > 2
        if crossed(found[0], found[1]):
            transposed(result, found[0], found[1], elements, threads)
    if "mbtopk" in symbol or "SortKVInPlace" in symbol:
        selection(result, symbol, found[0], threads)
        return result
    if any(mark in lowered for mark in ORDERS) and not any(mark in symbol for mark in (*KINDS, *ROWS)):
        result.issued = threads / 32 * OTHER
        result.guessed = result.doubtful = True
        if name in SELECTIONS:
            result.cache_read = read * 8 * found[0].itemsize / SELECT_BITS
        return result
    result.issued = instructions(kernel, name, elements, threads, given)
    for mark, (thread, element) in KINDS.items():
        if mark in symbol:
            result.issued = OTHER * (threads / 32 * thread + elements / 32 * element)
            result.top = f"the instructions of {name}"
            break
    if "tensor_kernel_scan_innermost_dim" in symbol:
        result.issued, clocks = scanned(kernel, found[0])
        result.shared_clocks = 4 * clocks
    if "reduce_kernel" in symbol or symbol.startswith("reduction_"):
        result.issued, result.alu = reduced(kernel, elements, threads, found[0], OTHER)
        result.write = reduced_bytes(found, threads, kernel)
        if name in ("sum", "prod", "nansum") and found[0].itemsize < 8 and rate_key(found[0].type) in (None, "int8"):
            result.read = result.fetched = elements * 8  # whole numbers are summed as a 64-bit copy
    extra(result, name, symbol, elements, found)
    if name in NORMS and not any(mark in symbol for mark in KINDS) and "elementwise" not in symbol:
        result.issued = max(result.issued, elements / 32 * ROW_ELEMENT)
        result.top = "statistics and conversions of the normalisation"
    return result


def selection(result: Demand, symbol: str, keys: Tensor, threads: float) -> None:
    """A step of the selection that counts digits of 8 bits (ATen/native/cuda/TensorTopK.cu, ``mbtopk``): each pass counts them
    by blocks (16 bits a count), adds the blocks' counts of a slice up (32 bits), and finds how many lie below; then the chosen
    ones are gathered, and sorted in shared memory."""
    result.guessed = result.doubtful = True
    result.top = "the steps of a selection by digits"
    counts = threads  # a thread of a block for each digit
    looked_at = next((n for mark, n in SELECT_KEY.items() if mark in symbol), None)
    if looked_at is not None:
        result.issued = threads / 32 * looked_at[0] + keys.elements / 32 * looked_at[1]
        result.write = 2.0 * counts if "DigitCounts" in symbol else 0.0
        return
    result.issued = threads / 32 * OTHER
    result.read = 6.0 * counts if "WithinK" in symbol else 2.0 * counts
    result.write = 4.0 * counts if "CumSum" in symbol else 0.0
    if "bitonic" in symbol:
        result.read = threads * (keys.itemsize + 8.0)  # a value and its index
        result.issued, result.shared_clocks = (threads / 32 * n for n in (SORT_ISSUE, 4 * SORT_SHARED))
    if match := RADIX.search(symbol):  # a block sorts a slice: in each pass by four bits of the keys
        values = threads * int(match.group(1))
        result.read = result.write = min(values, keys.elements) * (keys.itemsize + 8.0)
        each = aten_code.in_passes(symbol, 2 * keys.itemsize)
        result.issued = threads / 32 * each if each else values / 32 * RADIX_VALUE
        result.doubtful = each is None
    result.fetched = result.read


def crossed(target: Tensor, source: Tensor) -> bool:
    """Whether neighbours of one tensor lie far apart in the other: a transposing copy."""
    pairs = [(t, s) for t, s, n in zip(target.strides or (), source.strides or (), target.shape) if n > 1]
    return bool(pairs) and all(max(t, s) >= 32 for t, s in pairs if min(t, s) == 1) and any(min(p) == 1 for p in pairs)


def lines_of_warp(target: Tensor, source: Tensor) -> tuple[int, int]:
    """Lines of the first-level cache that a warp's store and load take: 32 elements that follow one another in the target."""
    if target.strides is None or source.strides is None or target.shape != source.shape:
        return 1, 1
    both = target.strides, source.strides
    order = sorted((axis for axis, n in enumerate(target.shape) if n > 1), key=both[0].__getitem__)
    touched: tuple[set[int], set[int]] = (set(), set())
    for lane in range(32):
        for strides, tensor, lines in zip(both, (target, source), touched):
            left, place = lane, 0
            for axis in order:
                left, index = divmod(left, target.shape[axis])
                place += index * strides[axis]
            lines.add(place * tensor.itemsize // REQUEST_BYTES)
    return len(touched[0]), len(touched[1])


def transposed(result: Demand, target: Tensor, source: Tensor, elements: float, threads: float) -> None:
    """A copy across dimensions without tiles: neighbouring threads write next to each other and read far apart.

    Every element looks up a line of its own in the first-level cache, one a clock. What a block reads lies beside each
    other only for as many elements as it comes back to the source's fast axis; the first of them asks the second-level
    cache, the others find the line or wait for it, half of them in time (taken as the mean of all and none).
    """
    across = source.strides.index(1) if source.strides and 1 in source.strides else None
    steps = target.strides or ()
    inner = steps[across] if across is not None and across < len(steps) else 1  # elements until the next in its line
    block = min(elements, BLOCK_THREADS * max(1.0, elements / threads))
    together = max(1.0, min(block / max(1, inner), REQUEST_BYTES / source.itemsize))
    result.cache_read = elements * REQUEST_BYTES * (1 + 1 / together) / 2


def instructions(kernel: KernelInput, name: str, elements: float, threads: float, found: list[Tensor]) -> float:
    """Warp instructions but for the function itself."""
    walked = pointwise.issued(kernel, name, elements, threads, found)
    if walked is not None:
        return walked
    if "max_pool_forward_nchw" in kernel.symbol:
        window = next((v for v in map(sizes_of, kernel.concrete_inputs or []) if v), [2, 2])
        return threads / 32 * (2 * OTHER + 2 * pointwise.STRIDED * math.prod((window * 2)[: max(2, len(window))]))
    if "softmax_warp_forward" in kernel.symbol and found[0].shape and found[0].elements:
        together = 2 if found[0].shape[-1] <= 128 else 1  # rows of a warp (ATen/native/cuda/PersistentSoftmax.cuh)
        rows = elements / found[0].shape[-1] / together
        return rows * 2 * OTHER + elements / 32 * ROW_ELEMENT
    return max(threads / 32 * OTHER, elements / 32 * 10.0)


def extra(result: Demand, name: str, symbol: str, elements: float, found: list[Tensor]) -> None:
    """What the function itself costs, beyond the fixed instructions of a thread."""
    double = any(
        t.type == "double" and t.shape for t in found
    )  # a single number comes as a double whatever the others are
    if "MulFunctor" in symbol and name == "div":
        name = "mul"  # by a number: multiplied by its reciprocal
    for function, count in FUNCTIONS.get(name, {}).items():
        if double and function not in ("philox", "float"):
            result.double += elements / 32 * DOUBLE["double_function"] * count
            result.issued = (result.issued or 0.0) + elements / 32 * COST["double_function"] * count
        else:
            result.special += elements / 32 * SPECIAL.get(function, 0.0) * count
            result.issued = (result.issued or 0.0) + elements / 32 * COST[function] * count
    if double:
        result.double += elements / 32
        result.flop_type = "fp64"
    if name in FUNCTIONS:
        result.top = f"the instructions of {name}"


def moved(name: str, found: list[Tensor], kernel: KernelInput) -> tuple[float, float, bool]:
    """Bytes read and written, and whether they are an upper bound."""
    first = found[0]
    everything = float(sum(t.distinct_bytes for t in found))
    if name in FILLS:
        return 0.0, float(first.distinct_bytes), False
    if name in ("copy", "_to_copy", "clone") and len(found) > 1:
        return float(found[1].distinct_bytes), float(first.distinct_bytes), False
    if name in GATHERS and len(found) > 1:
        index = found[-1]
        rows = index.elements
        width = math.prod(first.shape[1:]) * first.itemsize if name != "gather" else first.itemsize
        gathered = float(rows * width)
        return min(float(first.distinct_bytes), gathered) + index.distinct_bytes, gathered, True
    if (
        name.startswith("_embedding_bag") and len(found) > 2 and first.shape
    ):  # rows of a table, added up by bags, and back
        each = first.shape[-1] * first.itemsize
        looked_up, bags = found[1].elements, found[2].elements
        if "backward" in name and not any(mark in kernel.symbol for mark in BAGS):
            return float(found[1].bytes), float(found[1].bytes), True  # of the steps that sort and number the indices
        if "backward" in name:
            return everything, float(looked_up * each), True
        return min(float(first.distinct_bytes), float(looked_up * each)) + found[1].bytes, float(bags * each), True
    if name == "embedding_dense_backward":  # every row of the gradient once, added to the rows of a table of zeros
        return everything, float(first.distinct_bytes), True
    if name.startswith("nll_loss"):  # one class of each row, and its label
        labels = float(max((t.elements for t in found if t.itemsize == 8), default=1))
        written = labels * first.itemsize if "backward" in name else 2.0 * first.itemsize
        return labels * (first.itemsize + 8), written, True
    if name in SELECTIONS:  # what is chosen is small; the slice is read again for every two bits of its keys
        return everything, 0.0, False
    if name in SCATTERS and len(found) > 1:
        source = float(max(t.distinct_bytes for t in found[1:]))
        indices = everything - first.distinct_bytes
        return indices + min(source, first.distinct_bytes), min(source, float(first.distinct_bytes)), True
    elements = max(broadcast(found, pointwise.room(kernel)), max(t.elements for t in found))
    size = max(t.itemsize for t in found)
    if name in COMPARISONS:
        size = 1
    elif name == "native_dropout":
        return everything, float(elements * (first.itemsize + 1)), False
    elif any(mark in name for mark in ("pool2d", "pool1d", "pool3d")):
        return pooling(name, found, kernel)
    elif name.startswith("upsample"):
        result = float(output_positions(kernel, first) * first.itemsize)
        return everything, result, False
    elif first.elements == elements and name != "where":
        size = first.itemsize  # an in-place result, or the type that the first operand asks for
    if name in NORMS:
        size = first.itemsize
        elements = first.elements
    return everything, float(elements * size), False


def pooling(name: str, found: list[Tensor], kernel: KernelInput) -> tuple[float, float, bool]:
    """Forward: the input once, an output and for a maximum its index (64 bits) of every window. Backward: the gradient and
    the indices are read, a gradient of the input's size is written."""
    first = found[0]
    if "backward" in name:
        target = found[1] if len(found) > 1 else first
        indices = sum(t.distinct_bytes for t in found[2:] if t.itemsize == 8)
        return float(first.distinct_bytes + indices), float(target.elements * first.itemsize), False
    each = first.itemsize + (8 if "indices" in name or "max" in name else 0)
    return float(first.distinct_bytes), float(output_positions(kernel, first) * each), False


def output_positions(kernel: KernelInput, first: Tensor) -> int:
    """Elements that a pooling or an interpolation makes. From its recorded lists: an output size, or window, stride and
    padding; else a thread an element, not more than it reads."""
    name = base_name(kernel)
    lists = [v for v in map(literal_list, kernel.concrete_inputs or []) if v is not None]
    spatial = 3 if "3d" in name else 1 if "1d" in name else 2
    planes, sizes = math.prod(first.shape[:-spatial]), first.shape[-spatial:]
    if lists and lists[0] and (name.startswith("upsample") or "adaptive" in name) and len(lists[0]) == spatial:
        return planes * math.prod(lists[0])
    if lists and lists[0] and "pool" in name:
        window = widened(lists[0], spatial)
        step = widened(lists[1], spatial) if len(lists) > 1 and lists[1] else window  # no stride: the window's size
        pad = widened(lists[2], spatial) if len(lists) > 2 and lists[2] else [0] * spatial
        return planes * math.prod(
            max(1, (n + 2 * p - w) // max(1, s) + 1) for n, w, s, p in zip(sizes, window, step, pad)
        )
    threads = math.prod(kernel.grid or (1,)) * math.prod(kernel.block or (1,))
    return min(threads, first.elements)


def widened(values: list[int], spatial: int) -> list[int]:
    return values * spatial if len(values) == 1 else values[:spatial]


def broadcast(found: list[Tensor], room: int | None = None) -> int:
    """Elements of what operands make together. Not all of an op's tensors are operands of one another, so not more than four
    times the largest, unless the launch has a place for every one (``room``)."""
    largest = max(t.elements for t in found)
    rank = max(len(t.shape) for t in found)
    sizes = [1] * rank
    fits = True
    for t in found:
        for i, n in enumerate(reversed(t.shape)):
            fits = fits and (n == sizes[i] or 1 in (n, sizes[i]))
            sizes[i] = max(sizes[i], n)
    total = math.prod(sizes)
    if room is not None:
        return total if fits and total <= room else largest
    return total if total <= 4 * largest or rank <= 2 else largest


def reduced_bytes(found: list[Tensor], threads: float, kernel: KernelInput) -> float:
    """The result of a reduction: unknown in size, at most an element a warp."""
    return min(float(found[0].bytes), threads / 32 * 4)


def joined(kernel: KernelInput) -> Demand | None:
    """``cat`` and ``stack``: everything read once and written once; but a pointwise kernel copies one of the parts, which are taken to be
    as large as it has places for."""
    lists = tensor_lists(kernel)
    if not lists:
        return None
    size = element_bytes(kernel.symbol) or 4
    threads = float(math.prod(kernel.grid or (1,)) * math.prod(kernel.block or (1,)))
    total = float(sum(math.prod(s) for s in lists[0]))
    each = pointwise.most_of_thread(kernel.symbol)
    if each and kernel.grid:
        parts = [math.prod(s) for s in lists[0] if math.prod(s) <= threads * each]
        total = float(min(total, max(parts))) if parts else min(total, threads * each)
    moved = total * size
    return Demand(read=moved, write=moved, flops=0.0, issued=threads / 32 * OTHER + total / 32 * 6, guessed=True)


def element_bytes(symbol: str) -> int | None:
    """Of a kernel that copies: the profiler records no types of lists, but its name has a type of their size or their own."""
    if match := OPAQUE.search(symbol):
        return int(match.group(1))
    match = COPIED.search(symbol)
    return itemsize(match.group(1)) if match else None
