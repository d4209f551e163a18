"""What the control plane's tests have: a small topology on four nodes, and no broker."""

from __future__ import annotations

from tests.unit.controlplane.conftest import nodes, sent_tasks, topology

__all__ = ["nodes", "sent_tasks", "topology"]
