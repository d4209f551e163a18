"""All requests of REST that write: for each a request that succeeds, and its entry in the audit trail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from django.conf import settings
from django.utils import timezone

from controlplane.alerts.models import Alert
from controlplane.alerts.silencing import silence_create
from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.models import Problem, Query, Topology
from controlplane.webhooks.deliveries import webhook_test
from controlplane.webhooks.models import Delivery
from controlplane.webhooks.services import webhook_create
from tests.unit.controlplane.specs import spec_of

WHY = "because of the tests"
Kind = Literal["creates", "changes", "deletes", "nothing"]


@dataclass(frozen=True, slots=True)
class Write:
    """`leaves`: what its entry in the audit trail says. `prepare` puts the installation into a state that
    permits it."""

    leaves: Kind
    body: dict[str, Any] = field(default_factory=dict)
    role: str = "operator"
    prepare: Callable[[], object] = lambda: None
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    reasoned: bool = True

    def data(self) -> dict[str, Any]:
        return {**self.body, "reason": WHY} if self.reasoned else self.body


WEBHOOK: dict[str, Any] = {"url": "https://hooks.example.org/x", "kinds": ["incident.opened"]}


def soon() -> str:
    return (timezone.now() + timedelta(days=1)).isoformat()


def running() -> None:
    topology_deploy(name="counts", actor="ada", reason="test", channel=Channel.SYSTEM)
    Topology.objects.filter(name="counts").update(status="running")


def with_parked() -> None:
    running()
    Query.objects.filter(partition__operator="O1").update(parked=True)


def stored() -> None:
    running()
    topology = Topology.objects.get(name="counts")
    Checkpoint.objects.create(
        topology=topology, epoch=10, state="completed", started_at=timezone.now(), stored=True
    )


def undelivered() -> None:
    newest = Event.objects.latest("sequence").sequence
    Delivery.objects.update(state="failed", kind="incident.opened", sequence=newest)


def paused() -> None:
    running()
    Topology.objects.filter(name="counts").update(status="paused")


def proposed() -> None:
    Incident.objects.update(proposals={"counts": {"proposal": "counts-w1-abc"}})


def where_nodes_may_fail() -> None:
    object.__setattr__(settings.RESURGE, "fault_injection", True)


WRITES: dict[tuple[str, str], Write] = {
    ("POST", "topologies/"): Write("creates", {"spec": spec_of("fresh")}),
    ("POST", "topologies/validate/"): Write("nothing", {"spec": spec_of("fresh")}, reasoned=False),
    ("PUT", "topologies/{name}/"): Write(
        "changes", {"spec": spec_of(parallelism=3)}, headers={"If-Match": "*"}
    ),
    ("DELETE", "topologies/{name}/"): Write("deletes", query="reason=because+of+the+tests"),
    ("POST", "topologies/{name}/deploy/"): Write("changes"),
    ("POST", "topologies/{name}/undeploy/"): Write("changes", prepare=running),
    ("POST", "topologies/{name}/checkpoint/"): Write("changes", prepare=running),
    ("POST", "topologies/{name}/recover/"): Write("changes", prepare=running),
    ("POST", "topologies/{name}/rebalance/"): Write("changes", prepare=running),
    ("POST", "topologies/{name}/verify/"): Write("changes", prepare=running),
    ("POST", "topologies/{name}/restore/"): Write("changes", {"checkpoint": 10}, prepare=stored),
    ("POST", "topologies/{topology}/savepoints/"): Write("creates", {"name": "fresh"}, prepare=stored),
    ("DELETE", "savepoints/{name}/"): Write("deletes", query="reason=because+of+the+tests"),
    ("POST", "topologies/{name}/park/"): Write("changes", {"queries": ["O1[0]"]}, prepare=running),
    ("POST", "topologies/{name}/unpark/"): Write("changes", prepare=with_parked),
    ("POST", "topologies/{name}/pause/"): Write("changes", prepare=running),
    ("POST", "topologies/{name}/resume/"): Write("changes", prepare=paused),
    ("PATCH", "topologies/{topology}/queries/"): Write("changes", {"priorities": {"O0[0]": 7}}),
    ("PATCH", "topologies/{topology}/queries/{query}/"): Write("changes", {"priority": 8}),
    ("PATCH", "topologies/{topology}/policy/"): Write("changes", {"planner": "optimal"}),
    ("PATCH", "topologies/{topology}/replicas/"): Write("changes", {"budget": 3}),
    ("POST", "nodes/{name}/drain/"): Write("changes"),
    ("POST", "nodes/{name}/activate/"): Write(
        "changes", prepare=lambda: Node.objects.update(state=NodeState.DRAINING)
    ),
    ("POST", "racks/{rack}/drain/"): Write("changes"),
    ("POST", "racks/{rack}/activate/"): Write(
        "changes", prepare=lambda: Node.objects.update(state=NodeState.DRAINING)
    ),
    ("POST", "nodes/{name}/forget/"): Write(
        "changes", prepare=lambda: Node.objects.update(state=NodeState.LEFT)
    ),
    ("POST", "nodes/{name}/fail/"): Write("changes", prepare=where_nodes_may_fail),
    ("POST", "incidents/{number}/approve/"): Write("changes", prepare=proposed),
    ("POST", "incidents/{number}/pause/"): Write("changes"),
    ("POST", "incidents/{number}/resume/"): Write(
        "changes", prepare=lambda: Incident.objects.update(paused=True)
    ),
    ("POST", "incidents/{number}/abort/"): Write("changes"),
    ("POST", "incidents/{number}/replan/"): Write("changes"),
    ("POST", "incidents/{number}/accept/"): Write(
        "changes", prepare=lambda: Incident.objects.update(state="catching_up")
    ),
    ("POST", "tokens/"): Write("creates", {"lifetime_hours": 1}, role="viewer"),
    ("DELETE", "tokens/{token_key}/"): Write("deletes", query="reason=because+of+the+tests", role="viewer"),
    ("POST", "webhooks/"): Write("creates", {"name": "other", **WEBHOOK}, role="administrator"),
    ("PATCH", "webhooks/{pk}/"): Write("changes", {"enabled": False}, role="administrator"),
    ("DELETE", "webhooks/{pk}/"): Write("deletes", query="reason=because+of+the+tests", role="administrator"),
    ("POST", "webhooks/{pk}/rotate-secret/"): Write("creates", role="administrator"),
    ("POST", "webhooks/{pk}/test/"): Write("creates", role="administrator"),
    ("POST", "webhooks/{webhook}/deliveries/{pk}/redeliver/"): Write(
        "changes", prepare=undelivered, role="administrator"
    ),
    ("POST", "alert-rules/"): Write(
        "creates",
        {"name": "other", "metric": "lag", "comparison": "above", "threshold": 5.0, "held": 10},
        role="administrator",
    ),
    ("PATCH", "alert-rules/{name}/"): Write("changes", {"threshold": 60}, role="administrator"),
    ("DELETE", "alert-rules/{name}/"): Write(
        "deletes", query="reason=because+of+the+tests", role="administrator"
    ),
    ("POST", "silences/"): Write("creates", {"rule": "lag-high", "until": soon()}),
    ("POST", "silences/{pk}/end/"): Write("changes"),
    ("POST", "what-if/"): Write(
        "nothing",
        {"nodes": ["node-1"], "algorithms": ["blocking"], "arrivals": [5], "points": 2},
        role="viewer",
        prepare=running,
        reasoned=False,
    ),
}
"""Method and route below ``/api/v1/``. A new address needs its line here."""


def installation_fill(topology: Topology) -> Callable[[str], dict[str, str]]:
    """Create a row of every kind; returns a function from a route to the values of its `{name}`s."""
    now = timezone.now()
    incident = Incident.objects.create(number=1, detected_at=now, opened_at=now)
    incident.topologies.add(topology)
    IncidentEntry.objects.create(incident=incident, at=now, kind="step", text="x")
    problem = Problem.objects.create(topology=topology, at=now, where="x", what="y")
    operation = Operation.objects.create(kind="topology.pause", target="counts", requested_by="ada")
    entry = AuditEntry.objects.latest("pk")
    Checkpoint.objects.create(topology=topology, epoch=5, started_at=now)
    Savepoint.objects.create(name="before-v2", topology="counts", state="complete", requested_by="ada")
    by: dict[str, Any] = {"actor": "ada", "reason": "test", "channel": Channel.SYSTEM}
    webhook, _ = webhook_create(name="pager", **WEBHOOK, **by)
    delivery = webhook_test(webhook_id=webhook.pk, **by)
    silence = silence_create(topology="counts", until=now + timedelta(hours=1), **by)
    alert = Alert.objects.create(
        rule="lag-high", metric="lag", comparison="above", threshold=30.0, severity="warning",
        topology="counts", state="firing", value=45.0, since=now, fired_at=now,
    )  # fmt: skip
    rows = {
        "webhooks": webhook,
        "silences": silence,
        "alerts": alert,
        "operations": operation,
        "problems": problem,
        "audit": entry,
    }
    keys = {resource: str(row.pk) for resource, row in rows.items()}

    def values(route: str) -> dict[str, str]:
        resource = route.removeprefix("api/v1/").partition("/")[0]
        return {
            "name": {"nodes": "node-1", "alert-rules": "lag-high", "savepoints": "before-v2"}.get(
                resource, "counts"
            ),
            "topology": "counts",
            "query": "O0[0]",
            "operator": "O0",
            "rack": "rack-a",
            "epoch": "5",
            "number": "1",
            "webhook": str(webhook.pk),
            "pk": str(delivery.pk) if "{webhook}" in route else keys.get(resource, "1"),
            "anything": "nowhere/",
            "path": "nodes/",
        }

    return values
