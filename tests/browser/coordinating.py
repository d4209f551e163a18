"""Carries out operators' requests on seeded rows, without ZooKeeper and drivers."""

from __future__ import annotations

import time
from typing import Any

import structlog
from django.db import connection

from controlplane.events.choices import OPERATION_OPEN, OperationKind
from controlplane.events.models import Operation
from domain.messages import Control
from workers.operations import operation_run
from workers.zookeeper import TopologyFacts

log = structlog.get_logger(__name__)

POLL = 0.3
NO_DRIVER_NEEDED = tuple(
    kind
    for kind in OperationKind
    if kind.startswith(("incident.", "rack."))
    or kind in (OperationKind.NODE_DRAIN, OperationKind.NODE_ACTIVATE)
)


class Alone:
    """A ZooKeeper without other clients: every plan is taken, and no driver answers."""

    def topology_facts(self, names: Any) -> dict[str, TopologyFacts]:
        return {
            name: TopologyFacts(name=name, spec=None, driver=None, latest=None, plan=None) for name in names
        }

    def plan_publish(self, name: str, plan: Any, *, own: Any) -> Any:
        return plan

    def control_change(self, name: str, change: Any) -> Any:
        return change(Control())


def operations_run(*, nodes: bool = True) -> None:
    """Run operations that need no answer of a driver, as the recovery worker does, without end. One that has
    begun is repeated, because the database may have been busy. nodes: False leaves operations on nodes
    pending."""
    kinds = [kind for kind in NO_DRIVER_NEEDED if nodes or not kind.startswith(("node.", "rack."))]
    alone: Any = Alone()
    seen = None
    while True:
        time.sleep(POLL)
        try:
            if (version := _version()) == seen:
                continue
            waiting = Operation.objects.filter(state__in=OPERATION_OPEN, kind__in=kinds)
            found = list(waiting.order_by("created_at").values_list("pk", flat=True))
            for pk in found:
                operation_run(alone, str(pk))
            seen = None if found else version
        except Exception as error:  # pages must be served in any case
            log.warning("operations not run", error=f"{type(error).__name__}: {error}")
            connection.close()
            seen = None


def _version() -> int:
    """Of the database: another number once another connection has changed it, so that a server where nothing
    happens looks at no rows."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        found: int = cursor.fetchone()[0]
    return found
