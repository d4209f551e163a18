"""What modules consist of is set apart from garbage collection, once."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Iterator

import pytest

from spark_jobs.executor.loaded import set_apart

NAME = "loaded_by_a_test"


class Held:
    """Garbage that only a collection finds, once it is dropped."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    set_apart()
    gc.disable()  # only what is asked for
    yield
    gc.enable()
    sys.modules.pop(NAME, None)


def collected() -> int:
    """How many objects the next collection looks through."""
    return len(gc.get_objects())


def load() -> None:
    module = types.ModuleType(NAME)
    module.__dict__["held"] = [[n] for n in range(1_000)]
    sys.modules[NAME] = module


def test_what_a_module_holds_is_looked_through_no_more() -> None:
    load()
    before = collected()
    set_apart()
    assert before > 1_000
    assert collected() < before - 1_000


def test_nothing_is_set_apart_unless_a_module_was_loaded() -> None:
    held = [[n] for n in range(1_000)]
    set_apart()
    assert any(each is held for each in gc.get_objects())


def test_garbage_is_collected_before() -> None:
    garbage = weakref.ref(Held())
    load()
    assert garbage() is not None
    set_apart()
    assert garbage() is None
