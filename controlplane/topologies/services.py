"""Changing what a topology is: its specification (write side).

Every service is keyword-only, needs an actor and a reason, is audited, and
publishes one event in its own transaction. What a topology does, and how it is recovered, is changed in
`controlplane.lifecycle`.
"""

from __future__ import annotations

from typing import Any

from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, EventKind
from controlplane.events.operations import reason_require
from controlplane.events.representation import Change, removal
from controlplane.events.services import event_publish, writing
from controlplane.preconditions import ANYTHING, Expected
from controlplane.topologies.choices import Outputs
from controlplane.topologies.former import former_note, generation_reached
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import (
    Topology,
    TopologyVersion,
)
from controlplane.topologies.outcomes import savepoints_await
from controlplane.topologies.permitted import permit
from controlplane.topologies.representation import topology_change
from controlplane.topologies.rows import Rows, rows_create, rows_removed
from controlplane.topologies.selectors import topology_get
from controlplane.topologies.tags import specification_tag
from controlplane.topologies.validation import spec_validate


@writing
def topology_create(*, spec: Any, actor: str, reason: str, channel: Channel) -> Topology:
    """Accept a specification as a new topology, version 1, not deployed.

    Raises `Invalid` (with paths into the specification) or, for a name that is taken, `Conflict`.
    """
    reason_require(reason)
    graph = spec_validate(spec)
    if Topology.objects.filter(name=graph.name).exists():
        raise Conflict(f"name: there is a topology {graph.name!r} already; update it or choose another name")
    stored = graph.to_data()
    reached = generation_reached(graph.name)
    begun = reached + 1 if reached else 0  # what drivers of a former topology of the name still say is void
    topology = Topology.objects.create(
        name=graph.name,
        spec=stored,
        guarantee=graph.spec.guarantee,
        generation=begun,
        applied_generation=begun,
    )
    TopologyVersion.objects.create(topology=topology, number=1, spec=stored, created_by=actor, reason=reason)
    rows = rows_create(topology, graph)
    audit_record(
        actor=actor,
        channel=channel,
        action="topology.create",
        target=topology.name,
        after=stored,
        reason=reason,
    )
    event_publish(
        kind=EventKind.TOPOLOGY_CREATED,
        topology=topology.name,
        changes=[topology_change(topology, graph=True), *rows.changes()],
        actor=actor,
        reason=reason,
    )
    return topology


@writing
def topology_update(
    *, name: str, spec: Any, actor: str, reason: str, channel: Channel, expected: Expected = ANYTHING
) -> Topology:
    """Replace the specification by a new version; only while the topology is not deployed. The one that it
    has changes nothing, whatever its state is.

    Raises `Missing`, `Invalid`, `Conflict` or, where it is not the one expected, `Stale`.
    """
    reason_require(reason)
    topology = topology_get(name, lock=True)
    expected.require(specification_tag(topology), f"the specification of {name}")
    graph = spec_validate(spec)
    if graph.name != topology.name:
        raise Invalid("name", f"a topology keeps its name: {topology.name!r}, not {graph.name!r}")
    latest = topology.versions.order_by("-number").first()
    if latest is not None and graph_of(latest.spec).spec == graph.spec:
        return topology
    permit(topology, "update")
    before = Rows.load(topology).changes()
    previous = graph_of(topology.spec)
    topology.spec, topology.guarantee = graph.to_data(), graph.spec.guarantee
    topology.version += 1
    topology.save(update_fields=["spec", "guarantee", "version", "updated_at"])
    TopologyVersion.objects.create(
        topology=topology, number=topology.version, spec=topology.spec, created_by=actor, reason=reason
    )
    after = rows_create(topology, graph, previous).changes()
    audit_record(
        actor=actor,
        channel=channel,
        action="topology.update",
        target=name,
        before={"version": topology.version - 1, "spec": latest.spec if latest else None},
        after={"version": topology.version, "spec": topology.spec},
        reason=reason,
    )
    event_publish(
        kind=EventKind.TOPOLOGY_UPDATED,
        topology=name,
        changes=[topology_change(topology, graph=True), *rows_removed(before, after), *after],
        actor=actor,
        reason=reason,
    )
    return topology


@writing
def topology_delete(
    *,
    name: str,
    actor: str,
    reason: str,
    channel: Channel,
    outputs: Outputs = Outputs.KEEP,
    expected: Expected = ANYTHING,
) -> None:
    """Remove a topology that is not deployed, with its history and its checkpoints. Its outputs are kept
    under another name, or removed. Raises `Missing`, `Conflict` or `Stale`."""
    reason_require(reason)
    topology = topology_get(name, lock=True)
    expected.require(specification_tag(topology), f"the specification of {name}")
    permit(topology, "delete")
    savepoints_await(topology)
    rows = Rows.load(topology).changes()
    checkpoints = topology.checkpoints.values_list("epoch", flat=True)
    plans = topology.plans.values_list("generation", flat=True)
    problems = topology.problems.values_list("pk", flat=True)
    changes: list[Change] = [
        removal("topology", name),
        *(removal(row["entity"], row["key"]) for row in rows),
        *(removal("checkpoint", f"{name}/{epoch}") for epoch in checkpoints),
        *(removal("plan", f"{name}/{generation}") for generation in plans),
        *(removal("problem", problem) for problem in problems),
    ]
    audit_record(
        actor=actor,
        channel=channel,
        action="topology.delete",
        target=name,
        before={**topology.spec, "outputs": outputs},
        reason=reason,
    )
    former_note(topology=topology, outputs=outputs)
    topology.delete()
    event_publish(kind=EventKind.TOPOLOGY_DELETED, topology=name, changes=changes, actor=actor, reason=reason)
