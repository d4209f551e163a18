"""Replaces sending to Celery, so that tests need no broker."""

from __future__ import annotations

from tests.unit.controlplane.conftest import sent_tasks

__all__ = ["sent_tasks"]
