"""What the loop is given by a loader with worker processes: whether the batch was there when it was asked for, and how much it holds.

Private attributes of ``torch.utils.data`` tell (alike in torch 2.9 to 2.14); where they are gone the answer is "unknown".
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

LOOKED = 1_000
"""Members of a batch looked at; of a larger one nothing is said."""
PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Asked:
    """Made just before the loop asks for its next batch; ``ready`` says, once it came, whether a worker had made it by then.

    A batch that has come counts from the moment at which its worker put it into the queue: from then on it is on its way. Batches
    of several workers may come in another order than they are wanted in; those that had to be put aside first came before it.
    """

    __slots__ = ("_arrived", "_aside", "_iterator", "_kept")

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self._kept = False
        self._aside: int | None = None
        self._arrived: int | None = None
        tasks = getattr(iterator, "_task_info", None)
        if not isinstance(tasks, dict):
            return
        self._kept = len(tasks.get(getattr(iterator, "_rcvd_idx", None), ())) == 2
        self._aside = _aside(tasks)
        self._arrived = _arrived(iterator)

    def ready(self) -> bool | None:
        """None where torch does not tell."""
        if self._kept:
            return True
        if self._arrived is None or self._aside is None:
            return None
        before = _aside(self._iterator._task_info) - self._aside
        return self._arrived > max(0, before)


def _aside(tasks: dict[Any, tuple[Any, ...]]) -> int:
    """Batches that came before their turn."""
    return sum(len(task) == 2 for task in tasks.values())


def _arrived(iterator: Any) -> int | None:
    """Batches that wait in the queues to the loop: from the workers, and from the thread that pins memory."""
    queues = [getattr(iterator, name, None) for name in ("_data_queue", "_worker_result_queue")]
    known = list({id(queue): queue for queue in queues if queue is not None}.values())
    try:
        return sum(_size(queue) for queue in known) if known else None
    except (AttributeError, OSError, TypeError, ValueError):  # another kind of queue, or one that is closed
        return None


def _size(queue: Any) -> int:
    try:
        return int(queue.qsize())
    except NotImplementedError:  # no sem_getvalue on macOS
        return 0 if queue.empty() else 1


def contents(batch: Any) -> tuple[int, int] | None:
    """Tensors of a batch, and bytes of these and of arrays; None where it holds something else, or very much."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    tensors = size = looked = 0
    todo = [batch]
    while todo:
        value = todo.pop()
        looked += 1
        if looked > LOOKED:
            return None
        if isinstance(value, PLAIN):
            continue
        if type(value) is tensor:
            tensors, size = tensors + 1, size + int(value.numel()) * int(value.element_size())
        elif isinstance(value, Mapping):
            todo.extend(value.values())
        elif isinstance(value, (list, tuple)):
            todo.extend(value[: LOOKED + 1])
        elif type(value).__module__ == "numpy" and isinstance(getattr(value, "nbytes", None), int):
            size += value.nbytes
        else:
            return None
    return tensors, size
