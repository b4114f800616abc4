"""Names and shapes on the wire beyond LSP, as ``docs/protocol.md`` documents them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

PROFILE = "ridgeline/profile"
HOT_KERNELS = "ridgeline/hotKernels"
COMPARE = "ridgeline/compare"
RUNS = "ridgeline/runs"
TARGETS = "ridgeline/targets"
ANNOTATIONS = "ridgeline/annotations"
TREE = "ridgeline/tree"
OVERVIEW = "ridgeline/overview"
PLACES = "ridgeline/places"
PROGRESS = "ridgeline/progress"
OUTPUT = "ridgeline/output"
PROFILE_CHANGED = "ridgeline/profileChanged"
TRUST = "ridgeline/trust"
TRACE_FORWARDED = "ridgeline/traceForwarded"

COMMAND_PROFILE = "ridgeline.server.profile"
COMMAND_CANCEL = "ridgeline.server.cancel"
COMMAND_OPEN_TRACE = "ridgeline.server.openTrace"
COMMAND_BENCHMARK = "ridgeline.server.benchmark"
COMMAND_VERIFY = "ridgeline.server.verifyAutotune"
COMMAND_TIME = "ridgeline.server.timeExpression"
COMMAND_TIME_FINDINGS = "ridgeline.server.timeFindings"
COMMAND_CLEAR = "ridgeline.server.clear"
COMMAND_SHOW = "ridgeline.server.show"
COMMAND_MUTE = "ridgeline.server.mute"
COMMAND_SELECT_RUN = "ridgeline.server.selectRun"
COMMAND_REBUILD = "ridgeline.server.rebuildAnalysis"
COMMAND_PIN = "ridgeline.server.pin"

CLIENT_GO_TO = "ridgeline.goToLocations"
CLIENT_PROFILE = "ridgeline.profileFile"
CLIENT_OPEN_TRACE = "ridgeline.openTrace"
CLIENT_OPEN_OVERVIEW = "ridgeline.openOverview"

REQUEST_FAILED = -32803
REQUEST_CANCELLED = -32800

State = Literal["running", "done", "failed", "cancelled"]
Reason = Literal["profiled", "found", "restored", "cleared", "selected", "pinned", "settings"]
Freshness = Literal["none", "fresh", "edited", "other-version"]

Json = dict[str, Any]


class RunInfo(TypedDict):
    """A finished run as clients see it. ``stepUs`` in microseconds."""

    id: str
    folder: str
    target: str
    created: str | None
    device: str | None
    steps: int | None
    stepUs: float | None
    trace: str | None
    pinned: bool
    rank: int | None


class Ask(TypedDict):
    """What a person has to type before a target can be run; it goes into ``words`` of its params."""

    title: str
    value: str
    placeHolder: str


class Target(TypedDict):
    """Something to profile: ``params`` are those of ``ridgeline/profile``."""

    icon: str
    label: str
    description: str
    params: Json
    ask: Ask | None


class AnnotatedLine(TypedDict):
    """A row of the heat map: zero-based line, bucket 0..5, share of the step in percent."""

    line: int
    bucket: int
    percent: float | None
    text: str
    stale: bool


class Annotations(TypedDict):
    uri: str
    version: int | None
    run: str | None
    state: Freshness
    lines: list[AnnotatedLine]


class TreeItem(TypedDict):
    id: str
    label: str
    description: str
    tooltip: str
    icon: str
    contextValue: Literal["kernel", "line", "finding", "change"]
    location: Json | None
    kernel: str | None
    file: str | None


class TreeGroup(TypedDict):
    id: Literal["changes", "kernels", "lines", "findings"]
    label: str
    description: str
    items: list[TreeItem]


class Tree(TypedDict):
    run: RunInfo | None
    note: str | None
    groups: list[TreeGroup]


class Progress(TypedDict):
    run: str | None
    uri: str | None
    state: State
    phase: str
    message: str
    step: int | None
    steps: int | None
    elapsedSeconds: float
    percentage: int | None


class CauseAction(TypedDict):
    title: str
    command: str
    arguments: list[Any]


class Cause(TypedDict):
    """Why a run failed: a stable kebab-case code, one line, what to do, and buttons."""

    code: str
    message: str
    hint: str | None
    actions: list[CauseAction]


class ProfileResult(TypedDict):
    state: State
    run: RunInfo | None
    exitStatus: int | None
    seconds: float
    message: str
    cause: Cause | None
    log: str | None
