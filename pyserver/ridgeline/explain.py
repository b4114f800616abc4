"""What a name in a trace means, in a sentence or two, and what to look at next. Standard library only: the language server
uses it for hovers, the reports for tooltips.

``explain(name)`` knows operators, marks that torch.compile and autograd leave, runtime calls, copies, vendors' kernels and
the words of the profiler's tables. It says nothing rather than something general.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Explanation(NamedTuple):
    text: str
    next: str = ""
    """What to look at or do next."""


_EXACT: dict[str, Explanation] = {
    "aten::matmul": Explanation(
        "`matmul` looks at the shapes and calls another operator: `mm` for two matrices, `bmm` for batches, `mv` or `dot` for vectors. "
        "It computes nothing itself; its time is that of what it calls.",
        "Look at `aten::mm` or `aten::bmm` below it.",
    ),
    "aten::linear": Explanation("A linear layer: becomes `addmm` with a bias, `mm` or `matmul` without."),
    "aten::mm": Explanation(
        "Product of two matrices: one GEMM kernel of the vendor's library.", "See its share of the peak (roofline)."
    ),
    "aten::bmm": Explanation("A batch of matrix products in one kernel, as attention uses it."),
    "aten::addmm": Explanation(
        "Bias and product in one operator, in place of `mm` and `add`. It is fused in the dispatcher: a one-dimensional bias goes into "
        "the GEMM's epilogue, any other is first copied to the output, and the GEMM adds to it.",
        "A `Memcpy DtoD` before the GEMM is that copy.",
    ),
    "aten::item": Explanation(
        "A tensor with one element becomes a Python number. On a device the host waits for all queued work first; the wait often sits in "
        "`cudaMemcpyAsync`, not in a synchronising call.",
        "Keep the value on the device and read it every so many steps.",
    ),
    "aten::_local_scalar_dense": Explanation("The part of `item` that copies the number to the host, and waits."),
    "aten::is_nonzero": Explanation("A tensor is asked for its truth value (`if t:`): the host waits for the device."),
    "aten::nonzero": Explanation(
        "Positions of nonzero elements. Their number is not known before, so the host waits for it."
    ),
    "aten::to": Explanation(
        "Changes type or device. Calls `_to_copy` only where something changes; otherwise it costs nothing."
    ),
    "aten::_to_copy": Explanation("The copy behind `to`: another type, another device, or both."),
    "aten::copy_": Explanation("Copies from one tensor into another: across devices, types or layouts."),
    "aten::contiguous": Explanation("Copies if the tensor's strides are not in order; otherwise returns it as it is."),
    "aten::reshape": Explanation("A view where strides allow one, a copy (`clone`) where they do not."),
    "aten::as_strided": Explanation(
        "Makes a view; computes nothing. Many of them are the dispatcher at work, not the device."
    ),
    "aten::empty": Explanation("Takes memory from the caching allocator; no kernel."),
    "aten::fill_": Explanation("Writes one value everywhere; `zeros`, `ones` and `zero_` end here."),
    "aten::zero_": Explanation(
        "Writes zeros. In `zero_grad` it comes from `set_to_none=False`.",
        "Drop `set_to_none=False`: gradients are then made anew.",
    ),
    "aten::_scaled_dot_product_flash_attention": Explanation(
        "Attention in one fused kernel that never stores the scores."
    ),
    "aten::_scaled_dot_product_efficient_attention": Explanation(
        "The memory-efficient fused attention; it takes more kinds of masks."
    ),
    "aten::_scaled_dot_product_attention_math": Explanation(
        "Attention as products and a softmax: the fused kernels refused the inputs.",
        "`torch.nn.attention.sdpa_kernel` with one backend prints why.",
    ),
    "aten::convolution": Explanation(
        "Chooses the library's convolution for shapes, layout and type (`cudnn_convolution`, `mkldnn_convolution`)."
    ),
    "TorchDynamo Cache Lookup": Explanation(
        "Here torch.compile checks its guards and looks for compiled code that fits this call. Costs some ten microseconds on the host, on every call."
    ),
    "Pregraph bytecode": Explanation("Python that Dynamo wrote to fetch the inputs before the compiled graph runs."),
    "AOTDispatcher Runtime Wrapper Prologue": Explanation(
        "Prepares inputs of a compiled graph (aliases, mutations, autograd). Host time only; it matters for tiny graphs."
    ),
    "CompiledFunction": Explanation("The forward of a compiled graph that needs gradients, as autograd sees it."),
    "CompiledFunctionBackward": Explanation(
        "The backward of a compiled graph; its generated module is another one than the forward's."
    ),
    "cudaLaunchKernel": Explanation(
        "Puts one kernel into a stream's queue and returns at once. Its time is the host's; the kernel runs later.",
        "Long ones mean a full queue (1024 launches), which is good.",
    ),
    "cudaLaunchKernelExC": Explanation(
        "A launch with attributes (clusters, programmatic dependent launch), as newer libraries make it."
    ),
    "cuLaunchKernel": Explanation("The driver's launch; Triton's kernels come through it."),
    "cuLaunchKernelEx": Explanation(
        "The driver's launch with attributes; newer Triton and cuBLAS's `nvjet` kernels come through it."
    ),
    "hipModuleLaunchKernel": Explanation("AMD's launch of a compiled kernel."),
    "cudaGraphLaunch": Explanation(
        "Replays a whole recorded graph of kernels with one call. Its kernels share one correlation id."
    ),
    "hipGraphLaunch": Explanation("Replays a whole recorded graph of kernels with one call."),
    "cudaMemcpyAsync": Explanation(
        "Queues a copy. With pageable memory on the host's side it is not asynchronous: copies to the host return only when done."
    ),
    "cudaMemsetAsync": Explanation("Queues a fill; cuBLAS and reductions clear their workspace so."),
    "cudaStreamSynchronize": Explanation("The host waits for one stream.", "Which statement made it wait?"),
    "cudaDeviceSynchronize": Explanation(
        "The host waits for everything on the device. The one at the very end of a recording is the profiler's own."
    ),
    "cudaEventSynchronize": Explanation("The host waits for a point in a stream."),
    "cudaStreamIsCapturing": Explanation("Asks whether a CUDA graph is being recorded; costs nothing."),
    "cudaMalloc": Explanation("Takes memory from the driver. In a steady loop the caching allocator should need none."),
    "cudaFree": Explanation("Returns memory to the driver and waits for the device; `empty_cache()` ends here."),
    "cudaFuncSetAttribute": Explanation("Sets a kernel's shared memory before a launch."),
    "Activity Buffer Request": Explanation(
        "The profiler takes a buffer for its records: a gap that only the recording has."
    ),
    "Memcpy DtoD": Explanation("A copy within the device. Right before a GEMM it is usually `addmm`'s bias."),
    "Memset": Explanation("A fill, often of a workspace."),
    "aten::baddbmm": Explanation(
        "A batch of products added to a tensor: `addmm` for batches.",
        "A copy right before it is the tensor that is added to.",
    ),
    "aten::scaled_dot_product_attention": Explanation(
        "Attention; chooses a fused kernel (`_flash_`, `_efficient_`, `_cudnn_`) or the written-out form (`_math`) by type, mask, head size and device.",
        "What it calls tells which one it was.",
    ),
    "aten::cat": Explanation(
        "Copies its tensors into a new one.",
        "In a loop that grows a tensor everything before is copied again each time.",
    ),
    "aten::clone": Explanation("Copies a tensor, also where `contiguous` or `reshape` found that no view would do."),
    "aten::index": Explanation(
        "Picks elements by index tensors. With a mask the number of elements is known to the device only, and the host waits for it."
    ),
    "aten::embedding": Explanation(
        "Looks rows up in a table; limited by bandwidth. Its backward pass adds to the rows."
    ),
    "aten::native_layer_norm": Explanation("Layer normalisation with its mean and deviation, in one kernel."),
    "aten::native_dropout": Explanation("Dropout that keeps its mask for the backward pass."),
    "aten::cudnn_convolution": Explanation(
        "A convolution by cuDNN, which chooses an algorithm by shapes and layout.",
        "Transposes (`nchwToNhwc`) around it: try channels_last.",
    ),
    "hipLaunchKernel": Explanation("AMD's launch: puts one kernel into a stream's queue and returns at once."),
    "cudaLaunchCooperativeKernel": Explanation("A launch whose blocks may wait for one another; all must fit at once."),
    "cudaStreamWaitEvent": Explanation("Makes one stream wait for a point in another. The host does not wait."),
    "cudaEventRecord": Explanation(
        "Marks a point in a stream, to wait for or to measure; costs the device next to nothing."
    ),
    "cudaEventQuery": Explanation(
        "Asks whether a point in a stream was reached, without waiting; the allocator does so for memory used on other streams."
    ),
    "cudaHostAlloc": Explanation(
        "Takes pinned memory from the driver, which is slow; `pin_memory()` caches it.",
        "In a loop: reuse the pinned tensor.",
    ),
    "cudaPointerGetAttributes": Explanation("Asks where a pointer's memory lies, for instance whether it is pinned."),
    "Command Buffer Full": Explanation(
        "The driver's queue of commands was full, and the host waited before it could launch more: the host is far ahead of the device."
    ),
    "Lazy Function Loading": Explanation("CUDA loads a kernel's code when it is launched for the first time."),
    "Runtime Triggered Module Loading": Explanation(
        "CUDA loads a library's kernels when the first of them is launched."
    ),
    "DistributedDataParallel.forward": Explanation(
        "The wrapped model's forward pass with what DDP does before it: copying buffers from rank 0, making the gradients' buckets ready."
    ),
    "occupancy": Explanation(
        "Which part of a multiprocessor's warps a launch can keep resident, by its grid, block, registers and shared memory. An estimate of "
        "the profiler's; a kernel can be at its peak with little of it."
    ),
    "self": Explanation("Time of the row itself, without what it calls. Only self times add up."),
    "total": Explanation(
        "Time of the row with everything that it calls; the same microsecond counts in every row above it."
    ),
    "calls": Explanation("How often, over all recorded steps."),
}


def _fused(words: str) -> str:
    """The operators in a fused kernel's name. Names of several words cannot be told apart there, so each word is one."""
    return ", ".join(dict.fromkeys(word for word in words.split("_") if word))


_KINDS: dict[str, str] = {
    "poi": "pointwise kernel",
    "red": "reduction, over a loop",
    "per": "reduction that keeps a row in registers",
    "tem": "template (matrix product, convolution, attention)",
    "for": "kernel over a list of tensors (foreach)",
}

_PATTERNS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Explanation]], ...] = (
    (
        re.compile(r"^Torch-Compiled Region: (\d+)/(\d+)"),
        lambda m: Explanation(
            f"Compiled code of frame {m[1]}, compilation {m[2]}. "
            + (
                "It was compiled again because a guard failed."
                if m[2] != "0"
                else "A graph break makes further frames out of one function."
            ),
            "Several frames called one after another: look for graph breaks.",
        ),
    ),
    (
        re.compile(r"^## Call CompiledFxGraph (\w+)"),
        lambda m: Explanation(
            f"Runs the generated module of graph {m[1][:10]}…. The same hash elsewhere is the same graph from the cache; its source lies in "
            f"Inductor's cache folder, which `fxgraph/{m[1][1:3]}/{m[1]}` names."
        ),
    ),
    (
        re.compile(r"^autograd::engine::evaluate_function: (\w+)"),
        lambda m: Explanation(f"Autograd runs the node {m[1]} of the backward pass."),
    ),
    (
        re.compile(r"^(\w+)Backward\d+$"),
        lambda m: Explanation(
            f"The derivative of {m[1]} in the backward pass; its line is that of the forward operation."
        ),
    ),
    (
        re.compile(r"^aten::_foreach_(\w+?)_?$"),
        lambda m: Explanation(
            f"`{m[1]}` on a list of tensors in few launches, as `foreach` optimizers and gradient clipping use it."
        ),
    ),
    (
        re.compile(r"^aten::_fused_(\w+?)_$"),
        lambda m: Explanation(f"The whole update of {m[1]} for a list of parameters: `fused=True`."),
    ),
    (
        re.compile(r"^c10d::(\w+?)_?$"),
        lambda m: Explanation(
            f"Asks the process group for {m[1]}. With NCCL it is queued and the host goes on.",
            "Its kernel shows how long it takes.",
        ),
    ),
    (
        re.compile(r"^gloo:(\w+)"),
        lambda m: Explanation(f"{m[1]} by gloo, through the host's memory.", "Between devices NCCL needs no detour."),
    ),
    (
        re.compile(r"^(self|total) (cpu|cuda|device)|^(cpu|cuda|device) total", re.I),
        lambda m: Explanation(
            "Time of the row itself, without what it calls. Only self times add up."
            if m[0].lower().startswith("self")
            else "Time of the row with everything that it calls; the same microsecond counts in every row above it."
        ),
    ),
    (
        re.compile(r"flash_(fwd|bwd)|fmha_|_sdpa|flash::"),
        lambda m: Explanation("Fused attention: the scores stay in the multiprocessors and never go through memory."),
    ),
    (
        re.compile(r"softmax_warp|cunn_SoftMax|softmax_\w*forward|softmax_\w*backward", re.I),
        lambda m: Explanation(
            "A softmax over rows; limited by bandwidth.",
            "Between two products it is attention written out: see attention-unfused.",
        ),
    ),
    (
        re.compile(r"layer_norm\w*kernel|LayerNorm\w*Kernel"),
        lambda m: Explanation("Layer normalisation; limited by bandwidth."),
    ),
    (
        re.compile(r"\bbn_(fw|bw)|batch_norm\w*kernel|BatchNorm", re.I),
        lambda m: Explanation(
            "Batch normalisation; limited by bandwidth. For inference it can be folded into the convolution."
        ),
    ),
    (
        re.compile(r"gemv|gemmSN"),
        lambda m: Explanation(
            "A product with a vector or a very thin matrix: every weight is read for little arithmetic, so bandwidth limits it.",
            "Larger batches reuse the weights.",
        ),
    ),
    (
        re.compile(r"indexing_backward|embedding_backward|compute_grad_weight"),
        lambda m: Explanation(
            "The backward pass of an embedding or of indexing: adds gradients to the rows that were read."
        ),
    ),
    (
        re.compile(r"^Memcpy PtoP|^Memcpy Peer"),
        lambda m: Explanation(
            "A copy from one device to another.", "In every step: `nn.DataParallel`, or tensors on the wrong device."
        ),
    ),
    (
        re.compile(r"^torch::autograd::AccumulateGrad"),
        lambda m: Explanation("Stores a parameter's gradient, or adds to the one that is there."),
    ),
    (
        re.compile(r"^Optimizer\.(step|zero_grad)#(\w+)"),
        lambda m: Explanation(f"The whole of {m[2]}'s `{m[1]}()` as the user called it."),
    ),
    (
        re.compile(r"^enumerate\(DataLoader\)#_(\w+)"),
        lambda m: Explanation(
            "Fetching the next batch. "
            + (
                "In the training process itself: num_workers is 0."
                if "SingleProcess" in m[1]
                else "From worker processes: this is waiting."
            )
        ),
    ),
    (re.compile(r"^ProfilerStep#(\d+)"), lambda m: Explanation(f"Step {m[1]}, as the profiler's schedule counts.")),
    (
        re.compile(r"Occupancy|^cudaOccupancy|^cuOccupancy"),
        lambda m: Explanation(
            "Asks how many blocks of a kernel fit on a multiprocessor: an adaptive launch follows. That none is seen says nothing on newer GPUs."
        ),
    ),
    (
        re.compile(r"^Memcpy (\w)to(\w) \((\w+) -> (\w+)\)"),
        lambda m: Explanation(
            f"A copy, {m[3].lower()} to {m[4].lower()}."
            + (
                " Pageable memory is staged through a buffer of the driver; pinned memory is not."
                if "Pageable" in m[0]
                else ""
            )
        ),
    ),
    (
        re.compile(r"^nvjet"),
        lambda m: Explanation("cuBLAS's GEMM for Hopper and later; the numbers are tile sizes and stages."),
    ),
    (
        re.compile(r"xmma_gemm|^cutlass|s\d+gemm|[sdh]gemm|gemm_\w*_tn|gemm_\w*_nn|gemm_\w*_nt|^Cijk_"),
        lambda m: Explanation(
            "A GEMM of the vendor's library. `tn`, `nn`, `nt`: which operand is transposed; `tf32`, `bf16`, `f16`: the type it computes in; "
            "`ffma` or `simt`: no tensor cores.",
            "See its share of the peak; at 90 % nothing is to be gained.",
        ),
    ),
    (
        re.compile(r"splitK|split_k", re.I),
        lambda m: Explanation("A GEMM whose inner dimension is split over blocks, summed afterwards."),
    ),
    (
        re.compile(r"nchwToNhwc|nhwcToNchw"),
        lambda m: Explanation("cuDNN turns the layout around a convolution.", "channels_last avoids it."),
    ),
    (
        re.compile(r"vectorized_elementwise_kernel"),
        lambda m: Explanation("A pointwise operation over contiguous memory; limited by bandwidth."),
    ),
    (
        re.compile(r"unrolled_elementwise_kernel|^void at::native::elementwise_kernel"),
        lambda m: Explanation("A pointwise operation over strided or mixed types."),
    ),
    (
        re.compile(r"multi_tensor_apply"),
        lambda m: Explanation("One kernel over many tensors: `foreach` and fused optimizers."),
    ),
    (re.compile(r"reduce_kernel"), lambda m: Explanation("A reduction (sum, mean, max).")),
    (
        re.compile(r"^(nccl|rccl|ncclDev)", re.I),
        lambda m: Explanation(
            "A collective. Its length includes waiting for other ranks; which collective it is cannot be had from the name."
        ),
    ),
    (
        re.compile(r"^triton_(poi|red|per|tem|for)_fused_?(.*?)_?(\d+)?$"),
        lambda m: Explanation(
            f"Inductor's {_KINDS[m[1]]}" + (f" for {_fused(m[2])}" if m[2] else "") + ".",
            "Go to its source in the generated module.",
        ),
    ),
    (
        re.compile(r"^(graph_\d+_)?cpp_fused_"),
        lambda m: Explanation("Inductor's C++ kernel for a CPU; the words are the operators that it fuses."),
    ),
)


def explain(name: str) -> Explanation | None:
    """What the name means; None where nothing certain can be said."""
    name = name.strip()
    found = _EXACT.get(name)
    if found is not None:
        return found
    for pattern, make in _PATTERNS:
        match = pattern.search(name)
        if match is not None:
            return make(match)
    head = name.split(" (", 1)[0]
    return _EXACT.get(head)


def names() -> tuple[str, ...]:
    """The names known as they are, for completion and for tests."""
    return tuple(_EXACT)
