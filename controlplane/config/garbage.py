"""Python's garbage collector in a process that answers.

A full collection looks at every object there is and stops the whole process meanwhile, websockets included.
Of the 160,000 objects of the web process nearly all are modules, classes and functions, which stay until it
ends: once they are set aside, what is left to look at is what requests leave behind.
"""

from __future__ import annotations

import gc

from django.urls import get_resolver

THRESHOLDS = (10_000, 10, 10)
"""A page of a long list makes tens of thousands of objects and frees them itself; with Python's own 700 it
alone would cause several collections, and every few pages a full one."""


def garbage_settle() -> None:
    """Load what the first request would, and set everything there is aside for good."""
    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
