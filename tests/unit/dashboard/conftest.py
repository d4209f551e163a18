"""Nothing is sent to Celery: no test here needs a broker."""

from __future__ import annotations

from tests.unit.controlplane.conftest import sent_tasks

__all__ = ["sent_tasks"]
