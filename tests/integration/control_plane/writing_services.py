"""Every service that writes, as it is called on the installation of `installed`; by the name of its function.

Some are there twice, with other arguments.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from copy import copy
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone
from knox.models import AuthToken
from msgspec import structs

from controlplane.accounts.services import admin_ensure, token_create, token_revoke
from controlplane.accounts.users import user_create, user_password_set, user_update
from controlplane.alerts.evaluation import _last as alerts_looked_at
from controlplane.alerts.evaluation import _look_store as alerts_store
from controlplane.alerts.measuring import Measured as AlertsMeasured
from controlplane.alerts.models import Silence
from controlplane.alerts.selectors import rule_list
from controlplane.alerts.services import rule_create, rule_delete, rule_update
from controlplane.alerts.silencing import silence_create, silence_end
from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.checkpoints.services import checkpoint_apply, checkpoint_catch_up
from controlplane.events.choices import OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import operation_fail, operation_start, operation_succeed
from controlplane.events.services import numbering_try
from controlplane.incidents import balancing
from controlplane.incidents.actions import incident_action, incident_order
from controlplane.incidents.balancing import rebalance_now
from controlplane.incidents.choices import INCIDENT_ACTIVE
from controlplane.incidents.models import Incident
from controlplane.incidents.overload import parking_by_policy
from controlplane.incidents.parking import queries_park, queries_unpark
from controlplane.incidents.plans import plan_adopt, plan_mark_applied, plan_mark_published
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import (
    incident_advance,
    incident_open_or_grow,
    incident_queries_note,
    partitions_lost,
    recover_now,
    story_add,
)
from controlplane.lifecycle.capacity import Measured, node_samples_record
from controlplane.lifecycle.forgetting import node_forget, nodes_forget_old
from controlplane.lifecycle.nodes import (
    node_activate,
    node_drain,
    node_register,
    node_trust,
    nodes_heartbeat,
    nodes_leave,
    nodes_lost,
    nodes_suspect,
)
from controlplane.lifecycle.parking import topology_park, topology_unpark
from controlplane.lifecycle.placing import topology_place
from controlplane.lifecycle.racks import rack_activate, rack_drain
from controlplane.lifecycle.recovery_terms import query_priorities_set, topology_policy_set
from controlplane.lifecycle.savepoints import savepoint_delete, savepoint_failed, savepoint_request
from controlplane.lifecycle.saving import _imported, savepoint_made
from controlplane.lifecycle.slow_nodes import drain_by_policy
from controlplane.lifecycle.topologies import (
    topology_action,
    topology_deploy,
    topology_restore,
    topology_undeploy,
)
from controlplane.measurements.measuring import measurements_store
from controlplane.measurements.models import Measurement
from controlplane.nodes.actions import node_action, rack_action
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.requests import first_nodes_request, request_failed, request_started
from controlplane.replication.figures import fidelity_store
from controlplane.replication.services import _store as replicas_store
from controlplane.results.corrections import correction_store
from controlplane.results.messages import Compared
from controlplane.topologies.capacity import cpu_model_learn
from controlplane.topologies.former import foreign_note, former_cleared, former_learn
from controlplane.topologies.models import Query, TentativePeriod, Topology
from controlplane.topologies.problems import problem_record
from controlplane.topologies.racks import rack_exposure_note
from controlplane.topologies.services import topology_create, topology_delete, topology_update
from controlplane.topologies.telemetry import (
    driver_gone,
    driver_status_apply,
    topology_metrics_apply,
    topology_stopped,
)
from controlplane.webhooks.deliveries import (
    deliveries_trim,
    delivery_redeliver,
    webhook_disable,
    webhook_test,
)
from controlplane.webhooks.models import Delivery, Webhook
from controlplane.webhooks.posting import Outcome
from controlplane.webhooks.sending import _lease_end, _lease_take, _record, _take
from controlplane.webhooks.services import (
    webhook_create,
    webhook_delete,
    webhook_secret_rotate,
    webhook_update,
)
from domain.capacity import Work
from domain.execution.job import EpochPlan
from domain.messages import LatestCheckpoint, NodeStats, Plan, ProblemReport
from domain.recovery.events import NodesLost, PartitionsLost
from spark_jobs.state.records import CheckpointRecord
from tests.unit.controlplane import specs
from tests.unit.controlplane.incidents.places import driver, registration
from tests.unit.controlplane.specs import BY
from workers.launcher.nodes import request_give_up

RECORD = CheckpointRecord(
    topology="counts",
    deployed=1,
    checkpoint=10,
    version=1,
    spec={},
    origin_us=0,
    plan=EpochPlan(epoch=10, slices={}, watermark=0, previous_watermark=0, at=0.0),
)
PASSWORD = "correct horse battery"
HOOK: dict[str, Any] = {"url": "https://hooks.example.org/x", "kinds": ["incident.opened", "node.lost"]}


def installed() -> None:
    """A topology that runs on four nodes, one that was never deployed, a node that is gone, one that is asked
    for, a webhook with a delivery, an operation, and a user with a token."""
    now = timezone.now()
    for number in range(1, 5):
        node_register(registration=registration(f"node-{number}"), at=now)
    topology_create(spec=specs.spec_of(), **BY)
    topology_create(spec=specs.spec_of("draft"), **BY)
    topology_deploy(name="counts", **BY)
    Topology.objects.filter(name="counts").update(status="running")
    plan_mark_applied(topology="counts", generation=counts().generation)
    Checkpoint.objects.create(topology=counts(), epoch=10, state="completed", started_at=now, stored=True)
    node_register(registration=registration("node-8"), at=now)
    Node.objects.filter(name="node-8").update(state="left")
    first_nodes_request(names_and_racks=[("node-6", "rack-a")], slots=2, capacity=100, at=now)
    webhook, _ = webhook_create(name="pager", **HOOK, **BY)
    webhook_test(webhook_id=webhook.pk, **BY)
    silence_create(topology="draft", until=now + timedelta(hours=1), **BY)
    Savepoint.objects.create(name="old", topology="counts", state="complete", requested_by="ada")
    user_create(username="bob", password=PASSWORD, role="operator", **BY)
    user_create(username="root", password=PASSWORD, role="administrator", **BY)
    token_create(user=user(), lifetime=None, **BY)
    topology_action(kind=OperationKind.TOPOLOGY_CHECKPOINT, name="counts", **BY)
    at = timezone.now()
    TentativePeriod.objects.create(
        topology=Topology.objects.get(name="counts"),
        query="O0[0]",
        generation=1,
        began_at=at,
        ended_at=at,
        first_epoch=1,
        last_epoch=2,
        fidelity=0.5,
    )


def incident_begin() -> None:
    nodes_lost(evidence={"node-4": "silent"}, at=timezone.now())


def counts() -> Topology:
    return Topology.objects.get(name="counts")


def user() -> Any:
    return get_user_model().objects.get(username="bob")


def webhook_id() -> int:
    return int(Webhook.objects.get(name="pager").pk)


def request() -> NodeRequest:
    return NodeRequest.objects.order_by("pk")[0]


def operation() -> Operation:
    return Operation.objects.order_by("created_at")[0]


def number() -> int:
    return int(Incident.objects.filter(state__in=INCIDENT_ACTIVE).get().number)


def lost(name: str) -> Callable[[], object]:
    return lambda: nodes_lost(evidence={name: "silent"}, at=timezone.now())


def heartbeat() -> None:
    now = timezone.now()
    nodes_heartbeat(
        stats=[
            NodeStats(
                id=name, at=now.timestamp(), session="a", cpu_percent=1, memory_bytes=1, disk_free_bytes=1
            )
            for name in ("node-3", "node-4")
        ],
        at=now,
    )


def opened() -> None:
    now = timezone.now()
    incident_open_or_grow(events=[NodesLost(at=now.timestamp(), nodes={"node-2": "silent"})], at=now)


def partitions() -> None:
    now, topology = timezone.now(), counts()
    event = PartitionsLost(
        at=now.timestamp(), topology="counts", generation=topology.generation, evidence="a test",
        partitions=frozenset({"O0[0]"}),
    )  # fmt: skip
    partitions_lost(event=event, at=now)


def unplaced() -> None:
    Topology.objects.filter(name="draft").update(status="deploying", desired="running")


def adopted() -> None:
    topology = counts()
    deployed, generation = topology.generation, topology.generation + 5
    assignment = {"Source[0]": "node-1"}
    plan = Plan(generation=generation, kind="recover", assignment=assignment, deployed=deployed)
    plan_adopt(topology="counts", plan=plan)


def slow_before() -> None:
    since = (timezone.now() - timedelta(hours=1)).isoformat()
    Topology.objects.filter(name="counts").update(slow_since={"node-3": since}, slow_nodes="automatic")


def overloaded_before() -> None:
    since = timezone.now() - timedelta(hours=1)
    Topology.objects.filter(name="counts").update(overloaded_since=since, overload="automatic", load=2.0)


def balanced_before() -> None:
    Topology.objects.filter(name="counts").update(rebalancing="automatic")


def rebalancing_begin() -> None:
    generation = Topology.objects.get(name="counts").generation
    balancing._begin("counts", {"O1[0]": "node-2"}, generation=generation, reason="test")


def parked_before() -> None:
    Query.objects.filter(partition__operator="O1").update(parked=True)


def sent() -> None:
    lease = uuid.uuid4()
    if _lease_take(webhook_id(), lease) and (sending := _take(webhook_id(), lease)) is not None:
        _record(sending, Outcome(duration=0.1, error="refused"))
        _lease_end(webhook_id(), lease, failed=True)


def undelivered_before() -> None:
    Delivery.objects.filter(kind="webhook.test").update(state="failed", kind="incident.opened", sequence=1)


def redelivered() -> None:
    delivery_redeliver(delivery_id=Delivery.objects.order_by("created_at")[0].pk, **BY)


def measured() -> None:
    seen = Measured(cpu_percent=5.0, agent_percent=1.0, throttled=0.0, topologies=["counts"])
    node_samples_record(measured={"node-3": seen, "node-4": seen}, at=timezone.now())


def learnt() -> None:
    work = [(Work(tasks=1.0, operators=0.2, tuples=100.0), 0.3)]
    cpu_model_learn(topology="counts", windows=work, tasks=1.0, at=timezone.now().timestamp())


def long_gone_before() -> None:
    long_ago = timezone.now() - timedelta(days=400)
    gone = Node.objects.filter(state="left")
    gone.update(last_heartbeat=long_ago, registered_at=long_ago, created_at=long_ago)


def alerts_found() -> None:
    now = timezone.now()
    alerts_store(rules=list(rule_list()), measured=AlertsMeasured(now), now=now, last=alerts_looked_at())


def saving_asked() -> Operation:
    return Operation.objects.get(kind="topology.savepoint")


def silence_id() -> int:
    return Silence.objects.latest("pk").pk


def replicas_placed() -> None:
    fields = {
        "assignment": {"O0[0]": "node-2"},
        "target": ["O0[0]"],
        "asked": [1, "structure_aware"],
        "deployed": 1,
        "tentative": {"O1": 0.0},
    }
    incidents = frozenset(incidents_open().values_list("pk", flat=True))
    replicas_store(
        topology=Topology.objects.get(name="counts"), fields=fields, revision=0, incidents=incidents
    )


def correction_kept() -> None:
    correction_store(period=TentativePeriod.objects.latest("pk").pk, found=Compared(stayed=1))


def figures_measured() -> None:
    """Of a topology and of a node, and once more."""
    at = timezone.now().replace(second=0, microsecond=0)
    kept = {"seconds": 600, "at": at, "figures": {"lag": [1, 1.0, 1.0, 1.0]}}
    rows = [
        Measurement(kind="topology", topology=Topology.objects.get(name="counts"), **kept),
        Measurement(kind="node", node=Node.objects.earliest("pk"), **kept),
    ]
    measurements_store([*rows, *(copy(row) for row in rows)])


SERVICES: dict[str, Callable[[], object]] = {
    # what happens to nodes
    "nodes_lost": lost("node-1"),
    "nodes_lost another": lost("node-2"),
    "node_register": lambda: node_register(registration=registration("node-9"), at=timezone.now()),
    "node_register again": lambda: node_register(
        registration=registration("node-8", "b2", 11), at=timezone.now()
    ),
    "nodes_heartbeat": heartbeat,
    "nodes_suspect": lambda: nodes_suspect(evidence={"node-3": "silent"}),
    "node_trust": lambda: node_trust(name="node-3", evidence="heard"),
    "nodes_leave": lambda: nodes_leave(reason="the installation stops"),
    "node_drain": lambda: node_drain(name="node-3", **BY),
    "node_activate": lambda: node_activate(name="node-3", **BY),
    "node_action": lambda: node_action(kind=OperationKind.NODE_DRAIN, name="node-3", **BY),
    "rack_action": lambda: rack_action(kind=OperationKind.RACK_DRAIN, rack="rack-a", **BY),
    "rack_drain": lambda: rack_drain(rack="rack-a", **BY),
    "rack_activate": lambda: rack_activate(rack="rack-a", **BY),
    "node_forget": lambda: node_forget(name="node-8", **BY),
    "nodes_forget_old": nodes_forget_old,
    "node_samples_record": measured,
    "first_nodes_request": lambda: first_nodes_request(
        names_and_racks=[("node-5", "rack-a"), ("node-6", "rack-a")], slots=2, capacity=100, at=timezone.now()
    ),
    "request_started": lambda: request_started(request=request(), at=timezone.now()),
    "request_failed": lambda: request_failed(request=request(), at=timezone.now(), error="none"),
    "request_give_up": lambda: request_give_up(request=request(), error="none"),
    # incidents and plans
    "incident_open_or_grow": opened,
    "partitions_lost": partitions,
    "recover_now": lambda: recover_now(topology="counts", actor="ada", reason="test"),
    "numbering_try": numbering_try,
    "rebalance_now": lambda: rebalance_now(topology="counts", actor="ada", reason="test"),
    "rebalancing begins": rebalancing_begin,
    "parking_by_policy": parking_by_policy,
    "drain_by_policy": drain_by_policy,
    "queries_park": lambda: queries_park(topology="counts", queries=["O1[0]"], actor="ada", reason="test"),
    "queries_unpark": lambda: queries_unpark(
        topology="counts", queries=["O1[0]"], actor="ada", reason="test"
    ),
    "plan_mark_published": lambda: plan_mark_published(topology="counts", generation=counts().generation),
    "plan_mark_applied": lambda: plan_mark_applied(topology="counts", generation=counts().generation),
    "plan_adopt": adopted,
    "rack_exposure_note": rack_exposure_note,
    # what drivers report
    "driver_status_apply": lambda: driver_status_apply(status=specs.driver_status(counts(), committed=9)),
    "driver_gone": lambda: driver_gone(name="counts"),
    "topology_metrics_apply": lambda: topology_metrics_apply(
        report=structs.replace(specs.epoch_report(counts(), epoch=9), flows={"Source[0]": {"Parser": [3.0]}}),
        health={},
    ),
    "checkpoint_apply": lambda: checkpoint_apply(report=specs.checkpoint_report(counts())),
    "checkpoint_catch_up": lambda: checkpoint_catch_up(
        topology="counts",
        newest=LatestCheckpoint(
            checkpoint=40, generation=counts().generation, completed_at=1.0, size_bytes=1
        ),
        since=0,
    ),
    "problem_record": lambda: problem_record(report=ProblemReport(topology="counts", where="a", what="b")),
    "topology_stopped": lambda: topology_stopped(name="counts"),
    "cpu_model_learn": learnt,
    # what operators ask for
    "topology_create": lambda: topology_create(spec=specs.spec_of("new"), **BY),
    "topology_update": lambda: topology_update(
        name="draft", spec=specs.spec_of("draft", parallelism=3), **BY
    ),
    "topology_delete": lambda: topology_delete(name="draft", **BY),
    "topology_deploy": lambda: topology_deploy(name="draft", **BY),
    "topology_undeploy": lambda: topology_undeploy(name="counts", **BY),
    "topology_action": lambda: topology_action(
        name="counts", kind=OperationKind.TOPOLOGY_CHECKPOINT, idempotency_key="key", **BY
    ),
    "topology_restore": lambda: topology_restore(name="counts", checkpoint=10, **BY),
    "topology_park": lambda: topology_park(name="counts", queries=["O1[0]"], **BY),
    "topology_unpark": lambda: topology_unpark(name="counts", queries=["O1[0]"], **BY),
    "topology_policy_set": lambda: topology_policy_set(name="counts", changes={"approval": "confirm"}, **BY),
    "query_priorities_set": lambda: query_priorities_set(topology="counts", priorities={"O0[0]": 7}, **BY),
    "topology_place": lambda: topology_place(Topology.objects.get(name="draft")),
    "_store": replicas_placed,
    "correction_store": correction_kept,
    "foreign_note": lambda: foreign_note(name="draft", generation=3),
    "former_learn": lambda: former_learn(name="draft", generation=7),
    "former_cleared": lambda: former_cleared(name="draft", at=timezone.now()),
    "operation_start": lambda: operation_start(operation=operation(), result={"request": 1}),
    "operation_succeed": lambda: operation_succeed(operation=operation()),
    "operation_fail": lambda: operation_fail(operation=operation(), error="none"),
    # accounts
    "admin_ensure": lambda: admin_ensure(username="admin", password=PASSWORD, channel=BY["channel"]),
    "user_create": lambda: user_create(username="eve", password=PASSWORD, role="viewer", **BY),
    "user_update": lambda: user_update(user_id=user().pk, changes={"role": "viewer"}, **BY),
    "user_password_set": lambda: user_password_set(
        user_id=user().pk, password=f"{PASSWORD} 2", tokens_end=True, **BY
    ),
    "token_create": lambda: token_create(user=user(), lifetime=None, **BY),
    "token_revoke": lambda: token_revoke(token=AuthToken.objects.filter(user=user())[0], **BY),
    # webhooks
    "webhook_create": lambda: webhook_create(name="other", **HOOK, **BY),
    "webhook_update": lambda: webhook_update(webhook_id=webhook_id(), changes={"enabled": False}, **BY),
    "webhook_delete": lambda: webhook_delete(webhook_id=webhook_id(), **BY),
    "webhook_secret_rotate": lambda: webhook_secret_rotate(webhook_id=webhook_id(), **BY),
    "webhook_test": lambda: webhook_test(webhook_id=webhook_id(), **BY),
    "webhook_disable": lambda: webhook_disable(webhook_id=webhook_id(), because="gone", hint="none"),
    "delivery_redeliver": redelivered,
    "deliveries_trim": deliveries_trim,
    "_record": sent,
    # measurements
    "measurements_store": figures_measured,
    "fidelity_store": lambda: fidelity_store(name="counts", now=1.0, racks={"rack-a": 0.5}),
    # alerts
    "_look_store": alerts_found,
    "rule_create": lambda: rule_create(
        name="other", metric="lag", comparison="above", threshold=5.0, held=10.0, **BY
    ),
    "rule_update": lambda: rule_update(name="lag-high", changes={"enabled": False}, **BY),
    "rule_delete": lambda: rule_delete(name="checkpoint-old", **BY),
    "silence_create": lambda: silence_create(
        rule="queries-unavailable", until=timezone.now() + timedelta(hours=1), **BY
    ),
    "silence_end": lambda: silence_end(silence_id=silence_id(), **BY),
    # savepoints
    "savepoint_request": lambda: savepoint_request(topology="counts", name="before-v2", **BY),
    "savepoint_made": lambda: savepoint_made(
        operation=saving_asked(), savepoint=Savepoint.objects.get(name="failing"), record=RECORD, size=7
    ),
    "savepoint_delete": lambda: savepoint_delete(name="old", **BY),
    "savepoint_failed": lambda: savepoint_failed(operation=saving_asked(), error="no room"),
    "savepoint imported": lambda: _imported("moved", "k" * 32, RECORD, 7, BY),
}

ABOUT_INCIDENTS: dict[str, Callable[[], object]] = {
    "incident_advance": lambda: incident_advance(number=number(), events=driver(1, "degraded")),
    "incident_action": lambda: incident_action(kind=OperationKind.INCIDENT_PAUSE, number=number(), **BY),
    "incident_order": lambda: incident_order(
        kind=OperationKind.INCIDENT_PAUSE, number=number(), actor="ada", reason="test"
    ),
    "incident_order abort": lambda: incident_order(
        kind=OperationKind.INCIDENT_ABORT, number=number(), actor="ada", reason="test"
    ),
    "incident_queries_note": lambda: incident_queries_note(number=number()),
    "story_add": lambda: story_add(number=number(), kind="step", text="text", key="key"),
}

EVERY = {**SERVICES, **ABOUT_INCIDENTS}

BEFORE: dict[str, Callable[[], object]] = {
    **dict.fromkeys(ABOUT_INCIDENTS, incident_begin),
    "nodes_forget_old": long_gone_before,
    "rebalancing begins": balanced_before,
    "parking_by_policy": overloaded_before,
    "drain_by_policy": slow_before,
    "queries_unpark": parked_before,
    "topology_unpark": parked_before,
    "topology_place": unplaced,
    "savepoint_made": lambda: savepoint_request(topology="counts", name="failing", **BY),
    "savepoint_failed": lambda: savepoint_request(topology="counts", name="failing", **BY),
    "delivery_redeliver": undelivered_before,
}
"""What has to be so before."""
