"""Kernels measured as the module calls them, else on arguments made from the text of the file.

Within the module's own run every kernel is met with its real arguments. It is measured on copies of them, so that what
it changes in place does not reach the next kernel. What the run does not reach (an op that is not registered, a size that
came out as zero) is measured on made arguments where their sizes are known.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
import traceback
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .arguments import CannotMake, copied, described, make, make_all
from .clocks import CpuClock, CudaClock
from .launches import Launch

if TYPE_CHECKING:
    from .session import Session

_MISSING_OP = re.compile(r"'_OpNamespace' '(?P<space>\w+)' object has no attribute '(?P<op>\w+)'")
_ANY = (
    RuntimeError,
    AttributeError,
    NameError,
    TypeError,
    ValueError,
    AssertionError,
    IndexError,
    ImportError,
    OSError,
)
"""What a generated file raises that this torch, this machine or a missing op does not suit."""


INDUCTOR_TIMES = 3
RAW = 20_000
"""Characters kept of a compiler's message."""


class Measuring:
    def __init__(self, torch: Any, session: Session) -> None:
        self.torch, self.session, self.request = torch, session, session.request
        self.clock = CudaClock(torch) if self.request["cuda"] else CpuClock(torch)
        self.wanted = {kernel["name"]: kernel for kernel in self.request["kernels"]}
        self.rows: dict[str, Any] = session.result["kernels"]
        self._edited: Any = None
        launched = self.request["file_kind"] == "launches"
        self._origin = "made as a run of the program had them" if launched else "made from the text of the file"

    def run(self) -> None:
        if self.request["file_kind"] == "launches":
            self._launches()
            return
        try:
            module = load(self.request["path"], self.request["stem"])
        except (*_ANY, SyntaxError) as error:
            missing = self._missing_op(error)
            self.session.fail("cannot-load", missing or f"{self.request['shown']} cannot be loaded ({_line(error)})")
            return
        kernels = {name: getattr(module, name, None) for name in self.wanted}
        if self.request["file_kind"] == "module":
            self._live(module, kernels)
        for name, kernel in self.wanted.items():
            row = self.rows.get(name)
            if row is None or (row.get("unbacked") and any(s["problem"] is None for s in kernel["sites"])):
                self._made(name, kernels[name])

    def _launches(self) -> None:
        """Kernels that a program launched itself: each by its own text, as the run launched it."""
        for name, wanted in self.wanted.items():
            path = os.path.join(os.path.dirname(self.request["path"]), f"launch_{wanted['index']}.py")
            with open(path, "w", encoding="utf-8") as out:
                out.write(wanted["launch"]["text"])
            try:
                kernel = getattr(load(path, f"launch_{wanted['index']}"), wanted["launch"]["symbol"])
            except Exception as error:  # noqa: BLE001 - the program's own code
                self._problem(name, f"its text cannot be loaded ({_line(error)})")
                continue
            self._made(name, Launch(kernel, wanted["launch"]))

    def _live(self, module: Any, kernels: dict[str, Any]) -> None:
        inputs = self._inputs(module)
        if inputs is None or not self._constants(module):
            return
        for name, kernel in kernels.items():
            if kernel is not None:
                setattr(module, name, Proxy(name, kernel, self))
        several = {name: getattr(module, name) for name in self.request["multi"] if hasattr(module, name)}
        for name, several_in_one in several.items():
            setattr(module, name, MultiProxy(self.request["multi"][name], several_in_one, self))
        try:
            module.call(inputs)
            self._synchronize()
        except Exception as error:  # noqa: BLE001 - whatever stops the module is said, and its kernels are measured singly
            self.session.note(self._missing_op(error) or f"the module stops at {self._place(error)} ({_line(error)})")
        finally:
            for name, kernel in {**kernels, **several}.items():
                if kernel is not None:
                    setattr(module, name, kernel)

    def _constants(self, module: Any) -> bool:
        """Fill what the program held under names of the module (frozen weights) with values of that shape."""
        bounds = [kernel["bound"] for kernel in self.wanted.values() if kernel["bound"]]
        for seed, (name, one) in enumerate(self.request["constants"].items()):
            if getattr(module, name, None) is not None:
                continue
            try:
                setattr(module, name, make(self.torch, one, min(bounds, default=None), seed))
            except (CannotMake, *_ANY) as error:
                self.session.note(f"{name}, a value of the program's, cannot be made ({_line(error)})")
                return False
        return True

    def _inputs(self, module: Any) -> list[Any] | None:
        bounds = [kernel["bound"] for kernel in self.wanted.values() if kernel["bound"]]
        if self.request["inputs"] is not None:
            try:
                return make_all(self.torch, self.request["inputs"], min(bounds, default=None))
            except (CannotMake, *_ANY) as error:
                self.session.note(f"the module's inputs cannot be made ({_line(error)})")
                return None
        if not callable(getattr(module, "get_args", None)):
            self.session.note("what the module takes is not known: each kernel is measured by itself")
            return None
        try:
            return list(module.get_args())
        except _ANY as error:
            self.session.note(f"the module's get_args() fails ({_line(error)}): each kernel is measured by itself")
            return None

    def _made(self, name: str, kernel: Any) -> None:
        wanted = self.wanted[name]
        site = next((s for s in wanted["sites"] if s["problem"] is None), None)
        if kernel is None:
            self._problem(name, "the module does not define it once loaded")
        elif site is None:
            before = self.rows.get(name, {}).get("problem")
            problem = wanted["sites"][0]["problem"] if wanted["sites"] else "no call of it was found"
            self._problem(name, before or problem)
        else:
            try:
                given = make_all(self.torch, site["arguments"], wanted["bound"])
            except (CannotMake, *_ANY) as error:
                self._problem(name, f"its arguments cannot be made ({_line(error)})")
                return
            self.take(name, kernel, given, {}, self._origin, site["line"])

    def take(
        self, name: str, kernel: Any, given: list[Any], named: dict[str, Any], origin: str, line: int | None = None
    ) -> None:
        """Measure one kernel on copies of ``given``; every problem ends as a line in its row."""
        if self.session.late:
            self._problem(name, f"not measured: the time is up (--timeout {self.request['timeout_s']:g})")
            return
        row: dict[str, Any] = {
            "arguments": origin,
            "line": line,
            "problem": None,
            "given": described(self.torch, given),
        }
        self.session.begin(name)
        empty = self._empty(name, given)
        if empty is not None:
            self._problem(name, empty, unbacked=True)
            return
        try:
            try:
                arguments = copied(self.torch, given)
            except RuntimeError:  # out of memory: on the originals then, which this may change
                arguments = given
                row["note"] = "no room for copies: measured on the module's own buffers"
            call = self.call_of(kernel, arguments, named)
            start = time.perf_counter()
            call()
            self._synchronize()
            row["first_call_s"] = time.perf_counter() - start
            for cache in self.request["caches"]:
                row[cache] = getattr(self.clock, cache)(call)
            if self.request["cuda"]:
                row["inductor_s"] = self._by_inductor(call)
            row.update(_resources(kernel))
            if self.wanted[name].get("search") is not None:
                from .tuned import compare

                try:
                    row["search"] = compare(self, name, self.wanted[name]["search"], arguments, named)
                except Exception as error:  # noqa: BLE001 - a search that fails leaves the kernel's own times standing
                    row["search_problem"] = f"the search failed ({_line(error)})"
            if self.wanted[name].get("against") is not None:
                row["against"] = self._against(kernel, self.wanted[name]["against"], arguments, named)
        except Exception as error:  # noqa: BLE001 - Triton's errors have no common base; each ends as this row's problem
            self._problem(name, self._missing_op(error) or f"cannot be run ({_line(error)})")
            return
        self.rows[name] = row
        self.session.save()

    def _against(self, kernel: Any, wanted: dict[str, Any], given: list[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The edited copy beside the original; what keeps it from running is its row, with the whole message for its place."""
        from .against import compare

        try:
            if self._edited is None:
                self._edited = load(self.request["edited"], "edited")
            edited = getattr(self._edited, wanted["name"])
            if isinstance(kernel, Launch):
                edited = Launch(edited, kernel.launch)
            return compare(self, kernel, edited, wanted, given, named)
        except Exception as error:  # noqa: BLE001 - compilers' errors have no common base
            return {"problem": f"the edited kernel cannot be run ({_line(error)})", "raw": str(error)[:RAW]}

    def call_of(self, kernel: Any, arguments: list[Any], named: dict[str, Any]) -> Callable[[], Any]:
        if callable(getattr(kernel, "run", None)):
            if "stream" not in named:  # without a device it is Triton's interpreter that runs, which takes any
                stream = self.torch.cuda.current_stream().cuda_stream if self.request["cuda"] else 0
                named = {**named, "stream": stream}
            return lambda: kernel.run(*arguments, **named)
        return lambda: kernel(*arguments, **named)

    def _by_inductor(self, call: Callable[[], Any]) -> float | None:
        """Seconds as Inductor's own benchmarker takes them (cold cache, the fastest of its samples), to compare with.

        Several times: where the host did not keep ahead of the device, all samples of one time hold a gap.
        """
        from torch._inductor.runtime import benchmarking

        benchmarker = getattr(benchmarking, "benchmarker", None)
        if benchmarker is None:
            return None
        try:
            return min(float(benchmarker.benchmark_gpu(call, rep=40)) for _ in range(INDUCTOR_TIMES)) / 1e3
        except (*_ANY, ZeroDivisionError) as error:  # only to compare with: ours stands without it
            self.session.note(f"Inductor's own benchmarker fails here ({_line(error)})")
            return None

    def _empty(self, name: str, given: list[Any]) -> str | None:
        """Why a time would be one of no work."""
        unbacked = set(self.request["unbacked"])
        for site in self.wanted[name]["sites"]:
            for position, text in enumerate(site["names"]):
                if text in unbacked and position < len(given) and given[position] == 0:
                    return f"unbacked size {text} = 0 in the harness: timing not meaningful; give a value (--size {text}=VALUE)"
        tensors = [value for value in given if isinstance(value, self.torch.Tensor)]
        if tensors and all(value.numel() == 0 for value in tensors):
            return "every argument has zero elements: there is no work to time"
        return None

    def _problem(self, name: str, text: str, *, unbacked: bool = False) -> None:
        self.rows[name] = {"problem": text, "unbacked": unbacked}
        self.session.save()

    def _synchronize(self) -> None:
        if self.request["cuda"]:
            self.torch.cuda.synchronize()

    def _missing_op(self, error: BaseException) -> str | None:
        found = _MISSING_OP.search(str(error))
        if found is None:
            return None
        name = f"{found['space']}.{found['op']}"
        with open(self.request["path"], encoding="utf-8", errors="replace") as file:
            line = next((n for n, text in enumerate(file, 1) if f"ops.{name}" in text), 1)
        return f"line {line}: op {name} not registered: import the module that defines it"

    def _place(self, error: BaseException) -> str:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == self.request["path"]]
        return f"line {frames[-1].lineno}" if frames else "its call"


class Proxy:
    """Stands in for a kernel in its module: measures the first call, and passes every call on."""

    def __init__(self, name: str, kernel: Any, measuring: Measuring) -> None:
        self._name, self._kernel, self._measuring = name, kernel, measuring

    def _measure(self, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._name not in self._measuring.rows:
            line = _caller(self._measuring.request["path"])
            self._measuring.take(self._name, self._kernel, list(given), named, "as in the module's run", line)

    def run(self, *given: Any, **named: Any) -> Any:
        self._measure(given, named)
        return self._kernel.run(*given, **named)

    def __call__(self, *given: Any, **named: Any) -> Any:
        self._measure(given, named)
        return self._kernel(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


class MultiProxy:
    """Stands in for a multi-kernel: measures each of its kernels on the first call's arguments, and passes calls on."""

    def __init__(self, names: list[str], multi: Any, measuring: Measuring) -> None:
        self._names, self._multi, self._measuring = names, multi, measuring

    def run(self, *given: Any, **named: Any) -> Any:
        line = _caller(self._measuring.request["path"])
        for index, (name, kernel) in enumerate(zip(self._names, self._multi.kernels)):
            if name in self._measuring.wanted and name not in self._measuring.rows:
                choose = getattr(self._multi, "_get_filtered_args", None)
                own = list(given if choose is None else choose(given, index))
                self._measuring.take(name, kernel, own, named, "as in the module's run", line)
        return self._multi.run(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._multi, name)


def load(path: str, stem: str) -> Any:
    """Import a generated file by its location."""
    name = f"_ridgeline_generated_{stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {os.path.basename(path)}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _resources(kernel: Any) -> dict[str, Any]:
    """Of a Triton kernel that ran: its configuration, registers a thread, spills, bytes of shared memory."""
    launcher = next(iter(getattr(kernel, "launchers", None) or ()), None)
    config = getattr(launcher, "config", None)
    shared = getattr(launcher, "shared", None)
    configurations = getattr(kernel, "configs", None)
    return {
        "config": None if config is None else str(config),
        "registers": getattr(launcher, "n_regs", None),
        "spills": getattr(launcher, "n_spills", None),
        "shared_memory": shared if isinstance(shared, int) else None,
        "configurations": len(configurations) if configurations else None,
    }


def _caller(path: str) -> int | None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == path:
            return frame.f_lineno
        frame = frame.f_back
    return None


def _line(error: BaseException) -> str:
    rows = [row.strip() for row in str(error).splitlines() if row.strip()]
    return f"{type(error).__name__}: {rows[0][:200]}" if rows else type(error).__name__
