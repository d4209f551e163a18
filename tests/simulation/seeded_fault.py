"""A change to the product that the simulation must find."""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import pytest

Where = Literal[
    "runs",
    "moves",
    "replicas",
    "tentative",
    "ends",
    "cycles",
    "cycle ends",
    "modes",
    "stops",
    "incidents",
    "engine",
    "marks",
    "scarce",
    "pieces",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """In `method` of `owner`, `right` is replaced by `wrong`. where: the kind of schedule that finds it.
    besides: another fault, without which this one does no harm. found_by: the first schedule that fails; it
    is tried before all others, and need not be right."""

    name: str
    owner: type | ModuleType
    method: str
    right: str
    wrong: str
    where: Where = "runs"
    besides: Fault | None = None
    found_by: int = 0

    def seed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The product has the fault until the monkeypatch is undone."""
        if self.besides is not None:
            self.besides.seed(monkeypatch)
        changed = rewritten(getattr(self.owner, self.method), self.right, self.wrong)
        monkeypatch.setattr(self.owner, self.method, changed)


def rewritten(function: Callable[..., Any], right: str, wrong: str) -> Callable[..., Any]:
    """The function with a part of its source replaced."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(right) == 1, (
        f"{right!r} is not once in {function.__qualname__}: the fault is out of date"
    )
    module = sys.modules[function.__module__]
    names: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    code = compile(source.replace(right, wrong), f"<{function.__qualname__}, with a fault>", "exec", flags)
    exec(code, vars(module), names)  # noqa: S102 - our own source, changed in a test
    changed: Callable[..., Any] = names[function.__name__]
    return changed
