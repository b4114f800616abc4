"""What Triton's compiler makes of an operation, and what the walk of a kernel's text says it makes: needs no GPU.

usage: python tests/golden/roofline_costs.py [CAPTURE…] [--capability 90] [--limit N]

Without captures: compiles two kernels for each operation, with it and without, and prints the instructions an element
(all; those of the integer, multiply, special-function and load/store units) beside ``costs.COST``. With captures
(folders or archives as for ``roofline_score.py``, and folders whose trace has no counters): compiles Inductor's kernels as
they were launched, and compares the instructions of a warp with the model's. Needs the Triton that the figures are for
(``pip install triton==3.6.0``: its wheel has ptxas and nvdisasm); it executes the kernels' text as Triton's compiler does,
so captures must be trusted.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import math
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ridgeline.roofline import triton_model
from ridgeline.roofline.costs import COST
from ridgeline.roofline.inputs import KernelInput
from ridgeline.roofline.walk import Walker

HEAD = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

"""
KERNEL = """@triton.jit
def kernel(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    a = tl.load(in_ptr0 + x)
    b = tl.load(in_ptr1 + x)
    c = tl.load(in_ptr2 + x)
    {body}
    tl.store(out_ptr0 + x, r)
"""
ELEMENTS = 8
"""Of a thread: 1024 a block, 4 warps."""
PLAIN = {1: "r = a", 2: "r = a + b", 3: "r = a + b + c"}
SAMPLES: dict[str, tuple[int, str, float]] = {
    # operation -> operands, expression, instructions that the expression has beside it less those of PLAIN
    "exp": (1, "r = libdevice.exp(a)", 0), "exp_fast": (1, "r = tl.exp(a)", 0), "exp2": (1, "r = libdevice.exp2(a)", 0),
    "expm1": (1, "r = libdevice.expm1(a)", 0), "erf": (1, "r = libdevice.erf(a)", 0), "erfinv": (1, "r = libdevice.erfinv(a)", 0),
    "sigmoid": (1, "r = tl.sigmoid(a)", 0), "log": (1, "r = tl_math.log(a)", 0), "log1p": (1, "r = libdevice.log1p(a)", 0),
    "rsqrt": (1, "r = libdevice.rsqrt(a)", 0), "sqrt": (1, "r = libdevice.sqrt(a)", 0), "sqrt_rn": (1, "r = tl.sqrt_rn(a)", 0),
    "tanh": (1, "r = libdevice.tanh(a)", 0), "sinh": (1, "r = libdevice.sinh(a)", 0), "asin": (1, "r = libdevice.asin(a)", 0),
    "sin": (1, "r = tl_math.sin(a)", 0), "pow": (2, "r = libdevice.pow(a, b)", -1), "atan2": (2, "r = libdevice.atan2(a, b)", -1),
    "fmod": (2, "r = libdevice.fmod(a, b)", -1), "lgamma": (1, "r = libdevice.lgamma(a)", 0), "round": (1, "r = libdevice.floor(a)", 0),
    "divide": (2, "r = a / b", -1), "divide_constant": (1, "r = a / 3.7", 0), "divide_by_row": (1, "r = a / tl.load(in_ptr1)", 0),
    "nan_max": (2, "r = triton_helpers.maximum(a, b)", -1), "where": (3, "r = tl.where(a < b, a, c)", -1),
    "int_float": (1, "r = a.to(tl.int32).to(tl.float32)", 0), "philox": (1, "r = a * tl.rand(7, x)", 1),
    "welford_combine": (3, "m, n, w = triton_helpers.welford_combine(a, b, c, a * 2, b * 3, c * 5)\n    r = m + n + w", 3),
    "online_softmax_step": (3, "m, s = triton_helpers.online_softmax_combine(a, b, c, False)\n    r = m + s", -1),
    "index_divide": (1, "r = a + (x // 7).to(tl.float32)", 2), "index_mask": (1, "r = a + (x % 1024).to(tl.float32)", 2),
}  # fmt: skip
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);")
LABEL = re.compile(r"^(\.L_x_\w+):")
UNITS = {
    "multiply": ("FADD", "FMUL", "FFMA", "IMAD"),
    "special": ("MUFU", "F2I", "I2F", "F2F", "FRND"),
    "load_store": ("LDG", "STG", "LDS", "STS", "LDSM", "STSM", "SHFL", "ATOM", "ATOMG", "RED", "LDGSTS"),
    "integer": ("IADD3", "LOP3", "SHF", "LEA", "ISETP", "FSETP", "FSEL", "SEL", "FMNMX", "IMNMX", "PRMT", "F2FP", "I2FP", "VIADD", "SGXT"),
}  # fmt: skip


@dataclass(slots=True)
class Machine:
    """Instructions by name, in the order of the text, and where loops begin and end."""

    names: list[str] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)

    def count(self, trips: list[int]) -> Counter[str]:
        """Weighted by the trips of the loops in the order of the text; what lies behind the last exit is a slow path."""
        weight = [1.0] * len(self.names)
        for (first, last), n in zip(self.loops, trips):
            for i in range(first, last + 1):
                weight[i] *= n
        end = next(
            (i for i, n in enumerate(self.names) if n == "EXIT" and i > max((b for _, b in self.loops), default=0)),
            len(weight),
        )
        total: Counter[str] = Counter()
        for name, w in zip(self.names[: end + 1], weight):
            total["all"] += w  # type: ignore[assignment]  # Counter of floats
            for unit, members in UNITS.items():
                total[unit] += w * (name.split(".")[0] in members)  # type: ignore[assignment]
        return total


def disassembled(text: str) -> Machine:
    machine, labels = Machine(), {}
    for line in text.splitlines():
        if label := LABEL.match(line):
            labels[label.group(1)] = len(machine.names)
        elif found := INSTRUCTION.match(line):
            target = re.search(r"`\((\.L_x_\w+)\)", found.group(2))
            if (
                found.group(1) == "BRA"
                and target
                and labels.get(target.group(1), len(machine.names)) < len(machine.names)
            ):
                machine.loops.append((labels[target.group(1)], len(machine.names)))
            if found.group(1) != "NOP":
                machine.names.append(found.group(1))
    machine.loops.sort()
    return machine


def compiled(text: str, name: str, signature: dict[str, str], constants: dict[str, Any], attrs: dict[Any, Any], warps: int, stages: int, capability: int) -> Machine:  # fmt: skip
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel_text.py"
        path.write_text(text)
        function = getattr(module_of(path), name)
        places = {(function.arg_names.index(k),): v for k, v in constants.items()}
        source = ASTSource(function, signature=signature, constexprs=places, attrs=attrs)
        kernel = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps, "num_stages": stages}
        )
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(kernel.asm["cubin"])
        done = subprocess.run([tools / "nvdisasm", "-c", binary], capture_output=True, text=True, check=True)
    return disassembled(done.stdout)


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sample(body: str, capability: int) -> Counter[str]:
    signature = {f"in_ptr{i}": "*fp32" for i in range(3)} | {
        "out_ptr0": "*fp32",
        "xnumel": "i32",
        "XBLOCK": "constexpr",
    }
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    return compiled(
        HEAD + KERNEL.format(body=body), "kernel", signature, {"XBLOCK": 1024}, attrs, 4, 1, capability
    ).count([])


def operations(capability: int) -> None:
    print(
        f"{'operation':20} {'model':>6} {'compiled':>8}   {'  '.join(UNITS)}   (instructions an element, sm_{capability})"
    )
    for name, (operands, body, beside) in SAMPLES.items():
        with_it, without = sample(body, capability), sample(PLAIN[operands], capability)
        each = {unit: (with_it[unit] - without[unit]) / ELEMENTS for unit in ("all", *UNITS)}
        units = "  ".join(f"{each[u]:>{len(u)}.1f}" for u in UNITS)
        print(f"{name:20} {COST[name]:6.1f} {each['all'] - beside:8.1f}   {units}")


class Counted(Walker):
    """Notes the trips of loops in the order of the text."""

    trips_seen: list[int]

    def carry(self, body: Any, counter: Any) -> None:
        self.trips_seen.append(self.trips[-1])
        super().carry(body, counter)


def launched(kernel: KernelInput, capability: int) -> tuple[float, float] | None:
    """Instructions of a warp: the model's, the compiler's. None for kernels that are not Inductor's, or hold loops that the
    compiler has taken apart, or sines, whose rare path lies within."""
    source = triton_model.find(kernel)
    analysis = triton_model.analyse(kernel)
    if (
        source is None
        or analysis is None
        or not source.by_inductor
        or "sin(" in (kernel.kernel_source or "")
        or "cos(" in (kernel.kernel_source or "")
    ):
        return None
    given = triton_model.configuration(kernel, source)
    walker = Counted(source, {**source.constants, **given}, {}, kernel.grid or (1,))
    walker.trips_seen = []
    walker.run()
    trips = [n for n in walker.trips_seen if n > 1]
    constants = {k: given.get(k, source.constants.get(k)) for k, v in source.signature.items() if v == "constexpr"}
    tree = ast.parse(kernel.kernel_source or "")
    functions = [
        n
        for n in tree.body
        if isinstance(n, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in n.decorator_list)
    ]
    for function in functions:
        function.decorator_list = [d for d in function.decorator_list if ast.unparse(d).endswith("jit")]
    attrs = attributes(kernel.kernel_source or "")
    text = HEAD + "\n\n".join(map(ast.unparse, functions))
    machine = compiled(text, source.function.name, source.signature, constants, attrs, analysis.num_warps, kernel.num_stages or 1, capability)  # fmt: skip
    if len(machine.loops) != len(trips):
        return None
    return analysis.warp.issued, float(machine.count(trips)["all"])


def attributes(text: str) -> dict[Any, Any]:
    """Which arguments are multiples of 16, as Inductor's ``triton_meta`` says."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):
                if (
                    isinstance(key, ast.Constant)
                    and key.value == "configs"
                    and isinstance(value, ast.List)
                    and value.elts
                ):
                    found: dict[Any, Any] = ast.literal_eval(value.elts[0])
                    return found
    return {}


def kernels(paths: list[Path], capability: int, limit: int) -> None:
    from roofline_loo import collect

    for path in paths:
        errors, texts = [], set()
        for case in collect(path):
            key = (case.kernel.kernel_source, case.kernel.kernel_kwargs)
            if not case.triton or case.kernel.kernel_source is None or key in texts or len(errors) >= limit:
                continue
            texts.add(key)
            found = launched(case.kernel, capability)
            if found is not None:
                errors.append(math.log(found[0] / found[1]))
        if errors:
            size = sorted(map(abs, errors))
            print(f"{path.name:24} {len(errors):4} kernels  median error {statistics.median(size):.3f}  90 % below {size[int(0.9 * len(size))]:.3f}  bias {statistics.median(errors):+.3f}")  # fmt: skip


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="*", type=Path)
    parser.add_argument("--capability", type=int, default=90)
    parser.add_argument("--limit", type=int, default=1000, help="kernels of a capture")
    args = parser.parse_args(argv)
    if args.captures:
        kernels(args.captures, args.capability, args.limit)
    else:
        operations(args.capability)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
