"""The agent: runs inside the user's interpreter, beside the user's program, with torch and the standard library only.

It imports nothing else of Ridgeline and is loaded by file location (``main.py``) under the name ``_ridgeline_agent``,
so that neither ``sys.path`` nor the names in ``sys.modules`` that a program may look for are touched. Modules here use
relative imports only. Nothing in this package may import torch at module level: a program that sets
``OMP_NUM_THREADS`` or ``TORCH_LOGS`` before its own ``import torch`` must have its way.
"""
