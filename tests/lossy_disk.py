"""`harness.lossy_disk` for tests: a machine without loop devices skips them, and says why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import lossy_disk as harness_disk
from harness.lossy_disk import LossyDisk, NoLossyDiskError


@contextmanager
def lossy_disk(directory: Path) -> Iterator[LossyDisk]:
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(harness_disk.lossy_disk(directory))
        except NoLossyDiskError as error:
            pytest.skip(str(error))
        yield disk
