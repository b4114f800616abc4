"""What a kernel asks of the device: the one form that every model of a kernel produces and the limits are computed from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Demand:
    """Bytes and work of one launch. None: not known."""

    read: float | None = None
    """Bytes that must come from memory: every distinct address once."""
    write: float | None = None
    fetched: float | None = None
    """Bytes that memory delivers in whole bursts: more than ``read`` where addresses lie scattered; defaults to it."""
    cache_read: float | None = None
    """Bytes that pass the second-level cache towards the cores, repeats included; defaults to ``fetched``."""
    cache_write: float | None = None
    cache_sectors: float | None = None
    """The same as ``cache_read`` in whole sectors instead of lines: the data itself."""
    tiles_read: float = 0.0
    """Of factors, anew for every tile: whole lines that leave the second-level cache while results enter it."""
    flops: float | None = None
    flop_type: str | None = None
    tensor_flops: float | None = None
    """With the padding to whole tiles: what the matrix units execute."""
    tensor_rate: float = 1.0
    """Share of the matrix units' peak that this kind of instruction can reach (older instructions on newer devices)."""
    shared_per_tensor: float = 0.0
    """Busy time of shared memory for one unit of busy time of the matrix units."""
    shared_clocks: float = 0.0
    """Clocks, summed over multiprocessors and divided by four, that shared memory is busy beside ``shared_per_tensor``."""
    by_lines: bool = False
    """Whether they are lines that loads and stores look up in the first-level cache, not data that passes shared memory."""
    exchanged: bool = False
    """Whether most of them are shuffles and exchanges between threads."""
    scattered: bool = False
    """Whether that is lines looked up in the first-level cache, which is one unit with shared memory."""
    issued: float | None = None
    """Warp instructions of the whole launch."""
    special: float = 0.0
    load_store: float = 0.0
    alu: float = 0.0
    heavy: float = 0.0
    double: float = 0.0
    modelled: bool = True
    """False: bytes and FLOPs may be known, but what binds is not."""
    doubtful: bool = False
    """The instructions are those of a kind of kernel that was not measured: the bound is borderline whatever its margin."""
    cold: bool = True
    """Whether a cold cache costs it time: False where the data never fits in any case."""
    upper_bound: bool = False
    """The bytes depend on loaded indices: at most these."""
    lower_bound: bool = False
    """Some callee's cost is not known: at least these instructions."""
    guessed: bool = False
    """Sizes were inferred, not recorded."""
    top: str | None = None
    """The operation that issues most, in words."""
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.fetched is None:
            self.fetched = self.read

    @property
    def bytes(self) -> float | None:
        return None if self.read is None or self.write is None else self.read + self.write
