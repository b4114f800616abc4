"""What there is to measure in a generated file, from its text alone: kernels, their arguments at each call, inputs.

The call function is plain Python: it is parsed, never evaluated. Shapes come from ``empty_strided_*``,
``assert_size_stride`` and ``reinterpret_tensor``; element types from the kernels' own signatures, so that a kernel can be
measured even where the module itself cannot run. What comes out is plain data (JSON) for the user's interpreter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ridgeline.bench import bounds, multi
from ridgeline.bench import harness as harnesses
from ridgeline.bench import needs as user_needs
from ridgeline.bench.bytes import harness_bytes
from ridgeline.bench.signatures import Signature, dtype_of_comment, inductor_meta, signature
from ridgeline.bench.symbols import Symbols
from ridgeline.inductor.cpp_wrapper import is_cpp_wrapper
from ridgeline.inductor.kernel_file import parse_kernel_file
from ridgeline.inductor.module import WrapperModule, is_wrapper, op_name, parse_wrapper

_SYMBOL = re.compile(r"^[suz]\d+$|^ps\d+$|^zuf\d+$")
_FIRST_NAME = re.compile(r"[A-Za-z_]\w*")
_UNBACKED = re.compile(r"^u\d+$")
_HELD = "{name} is a value of the program's (a frozen weight, a constant), which the file does not describe"


@dataclass(slots=True)
class Site:
    """One call of a kernel; an argument is a tensor's description, a number, or None."""

    line: int
    arguments: list[Any]
    names: list[str]
    problem: str | None = None
    """Why its arguments cannot be made from the text."""


@dataclass(slots=True)
class Kernel:
    name: str
    language: str
    """triton or cpp."""
    line: int
    source: str
    """The text of its string in a module, or of the file."""
    signature: Signature
    sites: list[Site] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    needs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    bounds: int | None = None
    symbol: str = ""
    """The jitted function inside, where there is one."""
    launch: dict[str, Any] | None = None
    """{grid, options} of a kernel that the program launched itself."""


@dataclass(slots=True)
class Plan:
    path: str
    file_kind: str
    """module, kernel, or launches: a program's own kernels as a run of it launched them."""
    module_kind: str | None
    kernels: list[Kernel]
    harness: harnesses.Harness
    body: str
    """The file without its harness."""
    inputs: list[Any] | None
    """What ``call`` takes; None where neither the harness nor the assertions say."""
    constants: dict[str, Any] = field(default_factory=dict)
    """Tensors that the module reads by names of its own (frozen weights)."""
    unbacked: list[str] = field(default_factory=list)
    fallbacks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    choices: list[multi.Choice] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    """Symbols that an input gives (``s77 = primals_1``)."""
    run: str | None = None
    """The run folder that the arguments are from."""

    @property
    def symbols(self) -> list[str]:
        """Sizes that ``--size`` can give."""
        return [*self.sizes, *(name for name in self.unbacked if name not in self.sizes)]


class PlanError(ValueError):
    """The file is neither a module nor a kernel of Inductor's; one line."""


def read(text: str, path: str, sizes: Mapping[str, int] | None = None) -> Plan:
    """The plan of a generated file. ``sizes`` gives sizes that only a run knows (``u0``). Raises :class:`PlanError`."""
    harness = harnesses.read(text)
    body = harnesses.split(text)[0]
    if is_cpp_wrapper(text):
        raise PlanError(
            f"{path} calls its kernels from C++ (cpp_wrapper): they cannot be benchmarked one by one;"
            " `ridgeline profile` runs it as a whole"
        )
    if is_wrapper(text):
        return _Module(text, path, body, harness, sizes or {}).plan()
    return _kernel_file(text, path, body, harness)


def _kernel_file(text: str, path: str, body: str, harness: harnesses.Harness) -> Plan:
    found = parse_kernel_file(text, path)
    if found is None:
        raise PlanError(
            f"{path} is no file that Inductor wrote; bench takes a generated module or kernel:"
            " `ridgeline profile` of a program lists those that it ran"
        )
    kernel = Kernel(
        name=found.symbol,
        language="triton",
        line=found.line,
        source=body,
        signature=signature("triton", body),
        meta=inductor_meta(body),
        needs=user_needs.of(body, found.symbol, None),
        bounds=bounds.of(body),
        symbol=found.symbol,
    )
    if harness.complete:
        kernel.sites.append(Site(found.line, list(harness.inputs), list(harness.names)))
        _bound_arguments(kernel)
    else:
        problem = (
            "its harness is not understood"
            if harness.first_line
            else (
                "the file has no harness: compile with TORCHINDUCTOR_BENCHMARK_KERNEL=1, or measure the module that calls it"
            )
        )
        kernel.sites.append(Site(found.line, [], [], problem))
    return Plan(path, "kernel", None, [kernel], harness, body, None, notes=list(harness.notes[:1]))


def _bound_arguments(kernel: Kernel) -> list[tuple[str, int]]:
    """Say of integer arguments below what number the kernel wants its indices; (what they are views of, bound) of each."""
    found = []
    for pointer, bound in bounds.by_pointer(kernel.source).items():
        if pointer not in kernel.signature.names:
            continue
        position = kernel.signature.names.index(pointer)
        for site in kernel.sites:
            given = site.arguments[position] if position < len(site.arguments) else None
            if isinstance(given, dict) and "int" in str(given["dtype"]):
                given["bound"] = bound
                first = _FIRST_NAME.search(site.names[position].removeprefix("reinterpret_tensor"))
                found += [(first[0], bound)] if first is not None else []
    return found


class _Module:
    def __init__(self, text: str, path: str, body: str, harness: harnesses.Harness, sizes: Mapping[str, int]) -> None:
        self.path, self.body, self.harness = path, body, harness
        self.rows = text.splitlines()
        self.wrapper: WrapperModule = parse_wrapper(text, path)
        self.known: dict[str, Any] = dict(harness.constants)
        self.symbols = Symbols(sizes)
        self.inputs: list[str] = []
        self.entry = False
        """Whether it is in ``call`` itself, not in what that calls."""
        self.unbacked: list[str] = []
        self.sizes: dict[str, str] = {}
        """Symbol -> the input that gives it (``s77 = primals_1``)."""
        self.comment_types = dtype_of_comment(text)
        self.device = "cuda:0" if "empty_strided_cuda(" in _calls_of(body) else "cpu"
        self.kernels = {
            name: self._kernel(name) for name, d in self.wrapper.kernels.items() if not d.how.endswith("multi_kernel")
        }
        self.choices: dict[str, multi.Choice] = {}
        self.wrapper_names: set[str] = set()
        """Names of the module that a run of the program filled (``_frozen_param0 = None``)."""

    def _kernel(self, name: str) -> Kernel:
        definition = self.wrapper.kernels[name]
        source = "\n".join(self.rows[definition.line - 1 : definition.end_line])
        language = (
            "triton" if definition.how == "triton" else "cpp" if definition.how.startswith("cpp") else definition.how
        )
        return Kernel(
            name=name,
            language=language,
            line=definition.line,
            source=source,
            signature=signature(language, source),
            meta=inductor_meta(source) if language == "triton" else {},
            needs=user_needs.of(user_needs.inner(source), definition.symbol, definition.original_path)
            if language == "triton"
            else [],
            bounds=bounds.of(source),
            symbol=definition.symbol,
        )

    def plan(self) -> Plan:
        notes = list(self.harness.notes[:1])
        try:
            tree = ast.parse(self.body)
        except SyntaxError as error:
            raise PlanError(
                f"{self.path}:{error.lineno}: no valid Python even without its harness ({error.msg})"
            ) from error
        self.choices = multi.choices(tree)
        self.wrapper_names = {
            target.id for node in tree.body if isinstance(node, ast.Assign) and _is_none(node.value)
            for target in node.targets if isinstance(target, ast.Name)
        }  # fmt: skip
        # ``call`` first: what it takes are the inputs. Partitions and branches take what it has made.
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _takes_args(node)]
        for node in sorted(functions, key=lambda node: node.name != "call"):
            self.entry = node.name == "call"
            for statement in node.body:
                self._statement(statement)
        inputs = self._inputs() if self.harness.complete else self._asserted()
        self._bound(inputs)
        notes += self._stand_ins()
        return Plan(
            path=self.path,
            file_kind="module",
            module_kind=self.wrapper.kind,
            kernels=list(self.kernels.values()),
            harness=self.harness,
            body=self.body,
            inputs=inputs,
            constants=self.harness.constants,
            unbacked=self.unbacked,
            fallbacks=self._fallbacks(),
            notes=notes,
            choices=list(self.choices.values()),
            sizes=list(self.sizes),
        )

    def _bound(self, inputs: list[Any] | None) -> None:
        """Say of integer arguments, and of the inputs that they are, below what number a kernel wants its indices."""
        of_input: dict[str, int] = {}
        for kernel in self.kernels.values():
            for name, bound in _bound_arguments(kernel):
                of_input[name] = min(of_input.get(name, bound), bound)
        for name, one in zip(self.inputs, inputs or [], strict=False):
            if isinstance(one, dict) and name in of_input and "int" in str(one["dtype"]):
                one["bound"] = of_input[name]

    def _inputs(self) -> list[Any]:
        """What the harness makes, in the sizes that a person gave: numbers, and the shapes that are made of them."""
        if not self.symbols.given:
            return self.harness.inputs
        return [
            _plainly(self.known.get(name), one) for name, one in zip(self.inputs, self.harness.inputs, strict=False)
        ] or self.harness.inputs

    def _stand_ins(self) -> list[str]:
        """Sizes that only a run knows and that come from outside: the harness holds a number that means nothing."""
        return [
            f"{symbol} = {self.known.get(symbol)} is what Inductor writes where only a run knows a size:"
            f" times are of that size; give the real one (--size {symbol}=VALUE)"
            for symbol in self.sizes
            if _UNBACKED.match(symbol) and symbol not in self.symbols.given
        ]

    def _asserted(self) -> list[Any] | None:
        """Inputs from ``assert_size_stride``; their types from the kernels and comments, float32 where nothing says."""
        made = []
        for name in self.inputs:
            value = self.known.get(name)
            if not isinstance(value, dict) or value.get("problem"):
                return None
            made.append({**value, "dtype": value["dtype"] or self.comment_types.get(name, "float32")})
        return made

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, (ast.With, ast.If, ast.For, ast.While, ast.Try)):
            for inner in [*node.body, *getattr(node, "orelse", [])]:
                self._statement(inner)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            self._assign(node.targets[0], node.value)
            if isinstance(node.value, ast.Call):
                self._call(node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Name) and value.id == "args":
            names = [e.id for e in target.elts if isinstance(e, ast.Name)]
            if self.entry and not self.inputs:
                self.inputs = names
                for name, given in zip(names, self.harness.inputs, strict=False):
                    self._bind(name, given)
            return
        if isinstance(target, ast.Name):
            if _UNBACKED.match(target.id) and target.id not in self.unbacked:
                self.unbacked.append(target.id)
            given = self.symbols.given.get(target.id)
            if _SYMBOL.match(target.id) and isinstance(value, ast.Name) and value.id in self.inputs:
                self.sizes[target.id] = value.id
                if given is not None:
                    self.known[value.id] = given
            elif given is not None and (read := _item_of(value)) in self.inputs:
                described = self.known.get(read)
                if isinstance(described, dict):
                    self.known[read] = {**described, "value": given}  # the scalar that the size is read from
            self._bind(target.id, self._value(value))

    def _bind(self, name: str, value: Any) -> None:
        value = self.symbols.given.get(name, value)
        if value is None:
            value = self.symbols.known.get(name)
        self.known[name] = value
        if isinstance(value, int) and not isinstance(value, bool):
            self.symbols.learn(name, value)

    def _value(self, node: ast.expr) -> Any:
        """A tensor's description, a number, or None for what is not known."""
        if isinstance(node, ast.Name):
            return self.known[node.id] if node.id in self.known else self.symbols.value(node)
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called.startswith("empty_strided_") and len(node.args) >= 3:
                device = called.removeprefix("empty_strided_").removesuffix("_pinned")
                dtype = node.args[2].attr if isinstance(node.args[2], ast.Attribute) else None
                return self._tensor(node.args[0], node.args[1], dtype, "cpu" if device == "cpu" else f"{device}:0")
            if called == "reinterpret_tensor" and len(node.args) >= 3:
                base = self._value(node.args[0])
                dtype = base.get("dtype") if isinstance(base, dict) else None
                device = base.get("device", self.device) if isinstance(base, dict) else self.device
                return self._tensor(node.args[1], node.args[2], dtype, device)
            return None
        return self.symbols.value(node)

    def _tensor(self, size: ast.expr, stride: ast.expr, dtype: str | None, device: str) -> dict[str, Any]:
        sizes, strides = self.symbols.values(size), self.symbols.values(stride)
        if sizes is None or strides is None or len(sizes) != len(strides):
            return {**harnesses.tensor([], [], dtype, device), "problem": self.symbols.missing(size, stride)}
        return harnesses.tensor(sizes, strides, dtype, device)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        asserted = function.id if isinstance(function, ast.Name) else ""
        if asserted in ("assert_size_stride", "assert_tensor_metadata") and len(node.args) >= 3:
            typed = node.args[3] if asserted == "assert_tensor_metadata" and len(node.args) > 3 else None
            self._asserts(node.args[0], node.args[1], node.args[2], typed)
            return
        if asserted == "assert_size_stride_grouped" and len(node.args) >= 3:  # torch 2.14
            groups = [one.elts for one in node.args[:3] if isinstance(one, ast.Tuple)]
            for name, size, stride in zip(*groups, strict=False) if len(groups) == 3 else ():
                self._asserts(name, size, stride, None)
            return
        called = function.value if isinstance(function, ast.Attribute) and function.attr == "run" else function
        kernel = self.kernels.get(called.id) if isinstance(called, ast.Name) else None
        choice = self.choices.get(called.id) if isinstance(called, ast.Name) else None
        if kernel is not None:
            kernel.sites.append(self._site(kernel, node.args, node.lineno))
        for member, name in enumerate(choice.members if choice is not None else ()):
            if choice is not None and (kernel := self.kernels.get(name)) is not None:
                kernel.sites.append(self._site(kernel, choice.arguments(member, node.args), node.lineno))

    def _asserts(self, target: ast.expr, size: ast.expr, stride: ast.expr, typed: ast.expr | None) -> None:
        """What the module asserts of a buffer: its shape where nothing else says it, or in a size that was given."""
        if not isinstance(target, ast.Name):
            return
        name, known = target.id, self.known.get(target.id)
        if not isinstance(known, dict):
            dtype = typed.attr if isinstance(typed, ast.Attribute) else self.comment_types.get(name)
            self.known[name] = self._tensor(size, stride, dtype, self.device)
        elif name in self.inputs and self.symbols.given and "of" not in known:
            resized = self._tensor(size, stride, known["dtype"], known["device"])
            self.known[name] = known if resized.get("problem") else {**known, **resized}

    def _site(self, kernel: Kernel, given: list[ast.expr], line: int) -> Site:
        site = Site(line, [], [])
        types = kernel.signature.dtypes
        for position, argument in enumerate(given):
            name = ast.unparse(argument)
            declared = types[position] if position < len(types) else None
            value = self._value(argument)
            site.names.append(name)
            if isinstance(value, dict):
                if isinstance(argument, ast.Name) and value["dtype"] is None and declared:
                    value["dtype"] = declared  # An input's type is what the first kernel that reads it takes.
                value = {**value, "dtype": value["dtype"] or declared}
                site.problem = site.problem or value.pop("problem", None)
            elif value is None and name != "None":
                held = name in self.wrapper_names
                site.problem = site.problem or (_HELD.format(name=name) if held else self.symbols.unknown(name))
            site.arguments.append(value)
        return site

    def _fallbacks(self) -> list[dict[str, Any]]:
        """Calls that Inductor leaves to ATen or to an op of the program's own, with the reason where the text tells it."""
        found = []
        for call in self.wrapper.calls:
            if call.kind != "fallback":
                continue
            row = self.rows[call.line - 1]
            given = [v for n in re.findall(r"\b\w+\b", row) if isinstance(v := self.known.get(n), dict)]
            reason = None
            if any(str(v["dtype"]).startswith("complex") for v in given):
                reason = f"complex op runs as aten fallback: {op_name(call.callee)}"
            found.append(
                {
                    "line": call.line,
                    "op": op_name(call.callee) or call.callee,
                    "reason": reason,
                    "input_bytes": [harness_bytes(v) for v in given if v["dtype"]],
                }
            )
        return found


def _plainly(value: Any, otherwise: Any) -> Any:
    """``value`` where it is something that can be made, else what the harness makes."""
    if isinstance(value, dict):
        return otherwise if value.get("problem") else value
    return otherwise if value is None else value


def _takes_args(node: ast.FunctionDef) -> bool:
    """``call(args)`` and the functions that are written as it is: partitions, the branches of a condition, a loop's body."""
    return any(argument.arg == "args" for argument in node.args.args) and not node.name.startswith("benchmark_")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _item_of(node: ast.expr) -> str:
    """``arg0_1`` of ``arg0_1.item()``; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    return ""


def _calls_of(body: str) -> str:
    """The part after the kernels' definitions."""
    return body[body.rfind("async_compile.wait(") :]
