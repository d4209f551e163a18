"""Python's garbage collector in a server process.

A full collection visits every object and stops the whole process, websockets included. Nearly all of the web
process's 160,000 objects are modules, classes and functions, which stay until it ends. Once they are frozen,
a collection visits only what requests have left.
"""

from __future__ import annotations

import gc
from importlib import import_module

from django.urls import get_resolver

from host.garbage import collect_seldom

LOADED_LATE = ("spark_jobs.operators.catalogue", "spark_jobs.sources.prepare")
"""What the control plane loads when it first validates a topology."""


def garbage_settle() -> None:
    """Load what the first request would load, then freeze all objects."""
    _ = get_resolver().url_patterns
    for name in LOADED_LATE:
        import_module(name)
    gc.collect()
    gc.freeze()
    collect_seldom()
