"""The generated modules of a program and what is known of each: text, call sites, stacks, cache key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ridgeline.attribution.paths import owner
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.stacks import Resolved, StackFrame, StackResolver, parse_stack
from ridgeline.inductor.files import GeneratedFiles, stem_of
from ridgeline.inductor.module import CallSite, WrapperModule, is_wrapper, parse_wrapper
from ridgeline.inductor.provenance import ProvenanceLog
from ridgeline.profile import Module
from ridgeline.sidecar import Sidecar


@dataclass(slots=True, kw_only=True)
class ModuleEntry:
    """One wrapper module. Stacks by ``kernel:handle``; ``call_stack`` is the user's call of the region, innermost last."""

    stem: str
    path: str
    wrapper: WrapperModule
    fx_key: str | None = None
    compile_id: str | None = None
    backward: bool | None = None
    inference: bool | None = None
    stacks: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    call_stack: tuple[StackFrame, ...] = ()
    resolver: StackResolver | None = None
    resolved: dict[str, Resolved] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        if self.backward:
            return "backward"
        return "inference" if self.inference else self.wrapper.kind

    def describe(self) -> Module:
        kind = self.kind
        return Module(
            file=self.path,
            kind="backward" if kind == "backward" else "inference" if kind == "inference" else "forward",
            fx_key=self.fx_key,
            compile_id=self.compile_id,
        )

    def statements(self, handle: str | None) -> Resolved:
        """The user statements of a call site's stacks."""
        if handle is None or handle not in self.stacks or self.resolver is None:
            return Resolved()
        if handle not in self.resolved:
            self.resolved[handle] = self.resolver.resolve(self.stacks[handle])
        return self.resolved[handle]


class ModuleIndex:
    """All modules, found by stem, by the cache key of their graph, or by the kernels that they define."""

    def __init__(
        self,
        files: GeneratedFiles,
        store: SourceStore,
        user_roots: tuple[str, ...] = (),
        *,
        sidecar: Sidecar | None = None,
        log: ProvenanceLog | None = None,
    ) -> None:
        self.files, self.store, self.user_roots = files, store, user_roots
        self.entries: dict[str, ModuleEntry] = {}
        self.by_key: dict[str, ModuleEntry] = {}
        self._missing: set[str] = set()
        self._scanned = False
        if log is not None:
            self._take_log(log)
        if sidecar is not None:
            self._take_sidecar(sidecar)

    def _take_log(self, log: ProvenanceLog) -> None:
        for graph in log.graphs:
            entry = self.find(graph.path)
            if entry is None and graph.module is not None:
                entry = self._add(stem_of(graph.path), self.files.shown(graph.path), graph.module)
            if entry is None:
                continue
            entry.compile_id = entry.compile_id or graph.compile_id
            entry.stacks = entry.stacks or graph.kernel_stacks
            entry.nodes = entry.nodes or graph.post_grad_nodes
            region = log.regions.get(graph.compile_id or "", [])
            if not entry.call_stack:
                entry.call_stack = _called_from(
                    [StackFrame(file=f.file, line=f.line, function=f.function, text=f.text) for f in region]
                )
            self._key(entry, graph.fx_key)
            self._prepare(entry, "provenance")

    def _take_sidecar(self, sidecar: Sidecar) -> None:
        for graph in sidecar.graphs:
            entry = self.find(graph.path)
            if entry is None:
                continue
            entry.compile_id = graph.compile_id or entry.compile_id
            entry.backward, entry.inference = graph.is_backward, graph.is_inference
            if graph.kernel_stacks:
                entry.stacks = graph.kernel_stacks
            mapping = graph.node_mappings.get("cppCodeToPost")
            if isinstance(mapping, dict):
                entry.nodes = {k: v for k, v in mapping.items() if isinstance(v, list)}
            if graph.call_stack:
                entry.call_stack = tuple(
                    StackFrame(file=str(f[0]), line=int(f[1]), function=str(f[2]), text=None)
                    for f in graph.call_stack
                    if len(f) >= 3
                )
            self._key(entry, graph.fx_key)
            self._prepare(entry, "provenance")

    def _key(self, entry: ModuleEntry, fx_key: str | None) -> None:
        if fx_key is not None:
            entry.fx_key = fx_key
            self.by_key[fx_key] = entry

    def _prepare(self, entry: ModuleEntry, method: str) -> None:
        outer = tuple(f for f in entry.call_stack if owner(f.file, self.user_roots) == "user")
        entry.resolver = StackResolver(self.store, self.user_roots, method, outer)
        entry.resolved = {}
        for stacks in entry.stacks.values():
            entry.resolver.learn(stacks)

    def _add(self, stem: str, path: str, wrapper: WrapperModule) -> ModuleEntry:
        entry = self.entries[stem] = ModuleEntry(stem=stem, path=path, wrapper=wrapper)
        return entry

    def find(self, path: str) -> ModuleEntry | None:
        """The module at ``path`` (by its stem), read on first use; None if it is not at hand or no wrapper."""
        stem = stem_of(path)
        if stem in self.entries:
            return self.entries[stem]
        if stem in self._missing:
            return None
        text = self.files.text(path)
        if text is None or not is_wrapper(text):
            self._missing.add(stem)
            return None
        shown = self.files.shown(path)
        return self._add(stem, shown, parse_wrapper(text, shown))

    def all(self) -> list[ModuleEntry]:
        """Every module that is known or lies among the given files."""
        if not self._scanned:
            self._scanned = True
            for path in self.files.wrappers():
                self.find(path)
        return list(self.entries.values())

    def defining(self, kernel_files: Sequence[str]) -> ModuleEntry | None:
        """The one module whose kernels come from these single-kernel files; None if none or several fit best."""
        wanted = {stem_of(path) for path in kernel_files}
        if not wanted:
            return None
        scores: list[tuple[int, ModuleEntry]] = []
        for entry in self.all():
            own = {stem_of(k.path) for k in entry.wrapper.kernels.values() if k.path}
            if (hits := len(wanted & own)) == len(wanted):
                scores.append((hits - len(own), entry))
        scores.sort(key=lambda item: -item[0])
        if not scores or (len(scores) > 1 and scores[0][0] == scores[1][0]):
            return None
        return scores[0][1]


def _called_from(frames: list[StackFrame]) -> tuple[StackFrame, ...]:
    """The stack of ``dynamo_start`` without the compiled code itself, where its end can be trusted.

    Dynamo cuts a fixed number of frames of its own off, and where the region is a plain function that takes the caller
    with it. So the stack counts only if the last of its user frames is seen to call into Dynamo's entry.
    """
    outer = frames[:-1]
    for i in range(len(outer) - 1):
        if outer[i + 1].file.replace("\\", "/").endswith("torch/_dynamo/eval_frame.py") and outer[i + 1].function in (
            "__call__",
            "_fn",
            "compile_wrapper",
        ):
            return tuple(outer[: i + 1])
    return ()


def call_sites(entry: ModuleEntry, kernel: str) -> list[CallSite]:
    """The lines that launch one kernel."""
    return [site for site in entry.wrapper.calls if site.callee == kernel]


__all__ = ["ModuleEntry", "ModuleIndex", "call_sites", "parse_stack"]
