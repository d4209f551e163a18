"""Rows that all tests of a module share: made once, because making them takes longer than the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from django.db import transaction


@contextmanager
def filled(django_db_blocker: Any) -> Iterator[None]:
    """What the block writes stays until it ends; what a test writes on top of it, until the test does."""
    with (
        django_db_blocker.unblock(),
        transaction.atomic(),
        patch("controlplane.events.tasks.task_send"),
    ):
        yield
        transaction.set_rollback(True)
