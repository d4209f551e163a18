"""Packages that are installed, but that a process does well without.

Some packages load another one wherever they find it, which takes a new process a tenth of a second of CPU
and more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Absent:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Asked before all others by an import of what is not loaded yet."""
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r} is needed here", name=name)


@contextmanager
def absent(*names: str) -> Iterator[None]:
    """Packages with these names are not found meanwhile, unless they are loaded already."""
    finder = _Absent(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
