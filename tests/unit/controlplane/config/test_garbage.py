"""A full garbage collection stops the whole process, so it must have few objects to visit."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from controlplane.config.garbage import garbage_settle
from host.garbage import THRESHOLDS


@pytest.fixture
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_what_stays_is_set_aside(collector: None) -> None:
    before = len(gc.get_objects())
    garbage_settle()
    assert gc.get_freeze_count() > before / 2
    assert len(gc.get_objects()) < 1_000
    assert gc.get_threshold() == THRESHOLDS
