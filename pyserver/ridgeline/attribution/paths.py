"""Whose code a file is: the user's, a library's, or generated.

A path in a trace may be absolute or shortened by an entry of ``sys.path`` (``torch/nn/functional.py``, but also the
user's own ``model.py``, for the script's folder is such an entry). Names without a file (``<string>``, ``<built-in …>``)
are nobody's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

Owner = Literal["user", "library", "generated", "none"]

_LIBRARY_FOLDER = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d(?:\.\d+)?/|/python\d\.\d+/(?:lib/)?\w+\.py$|\.zip/|\.egg/"
)
_GENERATED_FILE = re.compile(
    r"(?:^|/)[a-z0-9]{2}/c[a-z0-9]{40,}\.py$|/torchinductor_[^/]+/|/torch_compile_debug/|(?:^|/)c[a-z2-7]{51}\.py$"
)
_NOTEBOOK_CELL = re.compile(r"/ipykernel_\d+/\d+\.py$")
# Top-level packages by which a shortened path is recognised as a library's. Others count as the user's: a library that
# is not named here is then shown as the innermost frame, which is true, if less useful.
_PACKAGES = frozenset(
    """
    torch torchvision torchaudio torchtext torchdata torchao torchtune triton functorch numpy scipy pandas sklearn PIL cv2
    transformers timm accelerate datasets diffusers tokenizers peft trl safetensors huggingface_hub lightning
    lightning_fabric lightning_utilities pytorch_lightning torchmetrics deepspeed apex flash_attn xformers einops
    bitsandbytes fairscale fairseq megatron transformer_engine ignite catalyst tqdm matplotlib IPython ipykernel
    jupyter_client traitlets tornado pytest _pytest pluggy debugpy pydevd coverage ray dask hydra omegaconf pydantic
    ridgeline _pydevd_bundle site_packages sympy networkx filelock fsspec multiprocess cloudpickle
    """.split()
) | frozenset(sys.stdlib_module_names)


@lru_cache(maxsize=65536)
def owner(path: str, user_roots: tuple[str, ...] = ()) -> Owner:
    """Whose file ``path`` is. ``user_roots`` (absolute folders) win over everything but generated and library folders."""
    if not path or path.startswith("<") or not path.endswith(".py"):
        return "none"
    path = path.replace("\\", "/")
    if _GENERATED_FILE.search(path):
        return "generated"
    if _LIBRARY_FOLDER.search(path):
        return "library"
    if any(path.startswith(root.rstrip("/") + "/") for root in user_roots):
        return "user"
    if path.startswith("/") or re.match(r"^[A-Za-z]:/", path):
        return "user"
    parts = PurePosixPath(path).parts
    top = parts[0].removesuffix(".py") if parts else ""
    return "library" if top in _PACKAGES else "user"


def is_notebook_cell(path: str) -> bool:
    """``/tmp/ipykernel_12/3481.py``: a cell, which no file on disk holds."""
    return _NOTEBOOK_CELL.search(path) is not None


def remap(path: str, roots: Sequence[tuple[str, str]]) -> str:
    """``path`` with the longest matching old root replaced by the new one (``--source-root OLD=NEW``)."""
    best: tuple[str, str] | None = None
    for old, new in roots:
        old = old.replace("\\", "/").rstrip("/")  # As paths are by now, those of Windows as well.
        if (path == old or path.startswith(old + "/")) and (best is None or len(old) > len(best[0])):
            best = (old, new.rstrip("/"))
    return path if best is None else best[1] + path[len(best[0]) :]
