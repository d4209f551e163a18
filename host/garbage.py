"""How often Python looks for garbage.

Loading a process makes hundreds of thousands of objects that stay until it ends. With Python's own thresholds
they are visited again and again while it loads: a twelfth of what its start takes.
"""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 10, 10)
"""A page of a long list makes tens of thousands of objects and frees them itself; with Python's own 700 it
alone would cause several collections, and every few pages a full one."""


def collect_seldom() -> None:
    """To be called before anything large is imported."""
    gc.set_threshold(*THRESHOLDS)
