"""Modules are set apart from garbage collection once they are loaded.

Spark has its Python workers collect garbage after every task. What modules consist of is never garbage; with
pandas loaded, looking through it took 13 ms of CPU each time, more than a small task itself.
"""

from __future__ import annotations

import gc
import sys

_modules = 0


def set_apart() -> None:
    """To be called when a task ends: does nothing unless modules were loaded since the last call, here or in
    the process that this one was forked from. What is garbage then is collected before."""
    global _modules
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()
