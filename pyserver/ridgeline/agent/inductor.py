"""Capture of Inductor's graphs, lines that stay right across its caches, and visible C++ kernels.

Hooks into private parts of torch, each guarded: where a signature is not the known one the hook stays off and the
reason goes to ``sidecar.errors``. Nothing here changes what Inductor compiles.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .instrument import SCOPE, instrument, is_wrapper
from .paths import UserFiles
from .timeline import user_frames

_AOT_ID = re.compile(r"# AOT ID: \['\d+_(forward|backward|inference)'\]")
Complain = Callable[[str, BaseException | str], None]
Mark = Callable[[str, Any], None]


class InductorCapture:
    """Collects the rows of ``Sidecar.graphs`` while graphs are compiled or loaded from a cache."""

    def __init__(self, users: UserFiles, mark: Mark, complain: Complain) -> None:
        self._users = self._is_user = users
        self._mark = mark
        self._complain = complain
        self._rows: dict[tuple[str, str | None, bool], dict[str, Any]] = {}
        self.sites: dict[str, list[tuple[int, str]]] = {}
        """Path of a generated module -> its wrapped call sites."""
        self.sources: dict[str, str] = {}
        """Generated wrapper modules by path, kept because a temporary cache folder may vanish."""

    def rows(self) -> list[dict[str, Any]]:
        rows = list(self._rows.values())
        forward = {row["compile_id"]: row["call_stack"] for row in rows if not row["is_backward"]}
        for row in rows:
            row["instrumented"] = row["path"] in self.sites
            if row["is_backward"] and row["compile_id"] in forward:
                row["call_stack"] = forward[row["compile_id"]]
        return rows

    def adopt_loaded(self) -> None:
        """Generated modules that were loaded before our hooks: their sources, without stacks."""
        cache: Any = sys.modules.get("torch._inductor.codecache")
        for module in list(getattr(getattr(cache, "PyCodeCache", None), "modules", None) or []):
            path = str(getattr(module, "__file__", None) or "")
            try:
                with open(path, encoding="utf-8") as file:
                    source = file.read()
            except OSError:
                continue
            if source.lstrip().startswith("# AOT ID:"):
                self.adopt(path, source, None)

    def adopt(self, path: str, source: str, key: str | None) -> None:
        """A generated module that no compilation of this process made; ``key`` is what its calls are labelled with."""
        self._saw(path, source)
        kind = _AOT_ID.match(source.lstrip())
        self._rows[path, None, False] = {
            "fx_key": key,
            "compile_id": None,
            "path": path,
            "cache_key": os.path.basename(path).removesuffix(".py"),
            "is_backward": kind is not None and kind[1] == "backward",
            "is_inference": kind is not None and kind[1] == "inference",
            "devices": [],
            "kernel_stacks": {},
            "node_mappings": {},
            "call_stack": [],
            "instrumented": False,
        }

    # ------------------------------------------------------------------ provenance
    def on_config(self, module: ModuleType) -> None:
        """``torch._inductor.config``: ask for provenance where neither the environment nor the user did."""
        trace: Any = module.trace  # type: ignore[attr-defined,unused-ignore]
        if not trace.provenance_tracking_level:
            trace.provenance_tracking_level = 1

    # ------------------------------------------------------------------ graphs
    def on_output_code(self, module: ModuleType) -> None:
        """``torch._inductor.output_code``: every graph passes ``post_compile``, compiled or from a cache."""
        graph_class: Any = module.CompiledFxGraph  # type: ignore[attr-defined,unused-ignore]
        self._wrap_post_compile(graph_class)
        self._wrap_call(graph_class)

    def _wrap_post_compile(self, graph_class: Any) -> None:
        original = graph_class.post_compile
        names = list(inspect.signature(original).parameters)
        if names != ["self", "example_inputs", "constants", "graph_kwargs"]:
            self._complain("CompiledFxGraph.post_compile", f"unknown signature {names}")
            return
        capture = self

        def post_compile(self: Any, example_inputs: Any, constants: Any, graph_kwargs: Any) -> Any:
            result = original(self, example_inputs, constants, graph_kwargs)
            try:
                capture._keep(self, graph_kwargs)
            except Exception as error:  # noqa: BLE001 - private attributes of torch; the user's run goes on
                capture._complain("capture of a compiled graph", error)
            return result

        graph_class.post_compile = post_compile

    def _wrap_call(self, graph_class: Any) -> None:
        original, mark = graph_class.__call__, self._mark

        def __call__(self: Any, inputs: Any) -> Any:
            if not self.fx_kwargs.get("is_backward"):
                mark("region", id(self))
            return original(self, inputs)

        if "fx_kwargs" not in getattr(graph_class, "__dataclass_fields__", {}):
            self._complain("CompiledFxGraph.__call__", "no field fx_kwargs")
            return
        graph_class.__call__ = __call__

    def _keep(self, graph: Any, graph_kwargs: Any) -> None:
        from torch._guards import CompileContext
        from torch._inductor.codecache import get_path

        path = get_path(graph.cache_key, "py")[2]
        compile_id = CompileContext.current_compile_id()
        row = {
            "path": path,
            "cache_key": graph.cache_key,
            "fx_key": getattr(graph, "_fx_graph_cache_key", None),
            "is_backward": bool(graph_kwargs.get("is_backward")),
            "is_inference": bool((getattr(graph, "fx_kwargs", None) or {}).get("is_inference")),
            "compile_id": None if compile_id is None else str(compile_id),
            "devices": sorted(map(str, graph.device_types)),
            "kernel_stacks": _json_object(getattr(graph, "inductor_provenance_stack_traces_str", None)),
            "node_mappings": _json_object(getattr(graph, "inductor_provenance_mapping_str", None)),
            "call_stack": [
                [frame.f_code.co_filename, frame.f_lineno, getattr(frame.f_code, "co_qualname", frame.f_code.co_name)]
                for frame in user_frames(sys._getframe(1), self._is_user)
            ],
            "instrumented": False,
        }
        self._rows[path, row["compile_id"], row["is_backward"]] = row
        source = getattr(graph, "source_code", None)
        if source:
            self._saw(path, source)

    def _saw(self, path: str, source: str) -> None:
        """Keep a generated module's text; its cache (CACHE/xy/NAME.py) holds no code of the user's."""
        self.sources[path] = source
        shelf = os.path.dirname(path)
        if len(os.path.basename(shelf)) == 2:
            self._users.add_generated(os.path.dirname(shelf))

    # ------------------------------------------------------------------ code cache
    def on_codecache(self, module: ModuleType) -> None:
        """``torch._inductor.codecache``: the key's digest of lines, and the loading of generated modules."""
        self._extend_cache_key(module)
        self._wrap_loading(module)

    def _extend_cache_key(self, module: Any) -> None:
        """Add the graph's stack traces to the cache key's details.

        They are not part of the key, so after an edit above a compiled function a hit brings yesterday's lines. With
        the digest an edit that moves no line still hits, and one that does misses only for the graphs it moved.
        """
        details = module.FxGraphHashDetails
        original = details.__init__
        names = list(inspect.signature(original).parameters)
        if names[:3] != ["self", "gm", "example_inputs"]:
            self._complain("FxGraphHashDetails.__init__", f"unknown signature {names}")
            return
        complain = self._complain

        def __init__(self: Any, gm: Any, *args: Any, **kwargs: Any) -> None:
            original(self, gm, *args, **kwargs)
            try:
                self.ridgeline_lines = lines_digest(gm)
            except Exception as error:  # noqa: BLE001 - a key without the digest is torch's own key
                complain("digest of the graph's lines", error)

        details.__init__ = __init__

    def _wrap_loading(self, module: Any) -> None:
        original = getattr(module, "_reload_python_module", None)
        if original is None or list(inspect.signature(original).parameters)[:2] != ["key", "path"]:
            self._complain("loading of generated modules", "unknown signature; C++ kernels stay invisible")
            return
        from torch._C._profiler import _RecordFunctionFast

        capture = self

        def _reload_python_module(key: str, path: str, *args: Any, **kwargs: Any) -> ModuleType:
            code = capture._instrumented(path)
            if code is None:
                return original(key, path, *args, **kwargs)  # type: ignore[no-any-return]
            loaded: Any = ModuleType(f"{original.__module__}.{key}")
            loaded.__file__ = path
            loaded.key = key
            loaded.__dict__[SCOPE] = _RecordFunctionFast
            exec(code, loaded.__dict__, loaded.__dict__)  # the module that torch was about to execute
            if kwargs.get("set_sys_modules", args[0] if args else True):
                sys.modules[loaded.__name__] = loaded
            return loaded  # type: ignore[no-any-return]

        module._reload_python_module = _reload_python_module

    def _instrumented(self, path: str) -> Any:
        try:
            with open(path, encoding="utf-8") as file:
                source = file.read()
            if not is_wrapper(source):
                return None
            self._saw(path, source)
            code, sites = instrument(source, path)
        except (OSError, SyntaxError, ValueError) as error:
            self._complain(f"instrumentation of {path}", error)
            return None
        self.sites[path] = sites
        return code


def lines_digest(graph_module: Any) -> str:
    """Hash of every node's stack trace in the graph and its nested graphs, and of the provenance level."""
    from torch._inductor import config

    digest = hashlib.sha256(str(config.trace.provenance_tracking_level).encode())
    if graph_module is not None:
        for module in graph_module.modules():
            graph = getattr(module, "graph", None)
            for node in getattr(graph, "nodes", ()):
                digest.update((node.stack_trace or "").encode("utf-8", "surrogatepass"))
                digest.update(b"\0")
    return digest.hexdigest()


def _json_object(text: str | None) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}
