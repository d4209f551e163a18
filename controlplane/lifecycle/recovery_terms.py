"""Changing how a topology is recovered: its policy and the priorities of its queries (write side).

Incidents that are open are looked at again at once: what is not restored yet is planned by the new terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.errors import Invalid, Missing
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, EventKind
from controlplane.events.operations import reason_require
from controlplane.events.services import event_publish, writing
from controlplane.events.tasks import REPLICAS_PLACE, task_send_on_commit
from controlplane.incidents.stepping import incidents_step_on_commit
from controlplane.preconditions import ANYTHING, Expected
from controlplane.topologies.choices import ReplicationMode
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import PRIORITY_HIGH, PRIORITY_LOW, Query, Topology
from controlplane.topologies.policies import policy_require, replicas_require, tentative_require
from controlplane.topologies.representation import query_change, topology_change
from controlplane.topologies.selectors import query_list, topology_get
from controlplane.topologies.tags import policy_tag, priorities_tag


@writing
def topology_policy_set(
    *,
    name: str,
    changes: Mapping[str, Any],
    actor: str,
    reason: str,
    channel: Channel,
    expected: Expected = ANYTHING,
) -> Topology:
    """Change some fields of the policy, also while an incident is open: it is looked at again at once.

    Raises `Missing`, `Invalid` with the field's name or, where it is not the policy expected, `Stale`.
    """
    reason_require(reason)
    topology = topology_get(name, lock=True)
    expected.require(policy_tag(topology), f"the policy of {name}")
    for field, value in changes.items():
        policy_require(field, value)
    if changes.get("replication_mode") == ReplicationMode.ON:
        replicas_require(graph_of(topology.spec))
    if any(field.startswith("tentative_") for field in changes):
        tentative_require(graph_of(topology.spec), changes)
    before = {field: getattr(topology, field) for field in changes}
    after = {field: value for field, value in changes.items() if before[field] != value}
    if not after:
        return topology
    for field, value in after.items():
        setattr(topology, field, value)
    topology.save(update_fields=[*after, "updated_at"])
    audit_record(
        actor=actor,
        channel=channel,
        action="topology.policy",
        target=name,
        before={field: before[field] for field in after},
        after=after,
        reason=reason,
    )
    event_publish(
        kind=EventKind.TOPOLOGY_UPDATED,
        topology=name,
        changes=[topology_change(topology, only=("method", "policy"))],
        actor=actor,
        reason=reason,
    )
    incidents_step_on_commit(topology)
    if any(field.startswith(("replication_", "tentative_")) for field in after):
        task_send_on_commit(REPLICAS_PLACE, name)
    return topology


@writing
def query_priorities_set(
    *,
    topology: str,
    priorities: Mapping[str, int],
    actor: str,
    reason: str,
    channel: Channel,
    expected: Expected = ANYTHING,
) -> list[Query]:
    """Set the priority (1 to 10) of queries given by id (``O3[0]``).

    expected: the tag of all priorities of the topology, or of those of exactly these queries.
    Raises `Missing`, `Invalid` or `Stale`.
    """
    reason_require(reason)
    target = topology_get(topology, lock=True)
    rows = {row.partition.label: row for row in query_list(topology)}
    for label, priority in priorities.items():
        if label not in rows:
            raise Missing(f"topology {topology!r} has no query {label!r}")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise Invalid("priority", f"query {label}: {priority!r} is not a whole number")
        if not PRIORITY_LOW <= priority <= PRIORITY_HIGH:
            raise Invalid(
                "priority", f"query {label}: {priority} is not between {PRIORITY_LOW} and {PRIORITY_HIGH}"
            )
    if expected.tags is not None:
        present = {label: row.priority for label, row in rows.items()}
        of_these = priorities_tag(topology, {label: present[label] for label in priorities})
        if of_these not in expected.tags:
            expected.require(priorities_tag(topology, present), f"a priority of {topology}")
    changed = {label: rows[label] for label, value in priorities.items() if rows[label].priority != value}
    if not changed:
        return [rows[label] for label in priorities]
    before = {label: row.priority for label, row in changed.items()}
    for label, row in changed.items():
        row.priority = priorities[label]
    Query.objects.bulk_update(changed.values(), ["priority"])
    audit_record(
        actor=actor,
        channel=channel,
        action="query.priority",
        target=topology,
        before=before,
        after={label: row.priority for label, row in changed.items()},
        reason=reason,
    )
    # What is not restored yet is planned by the new priorities.
    incidents_step_on_commit(target)
    event_publish(
        kind=EventKind.QUERY_UPDATED,
        topology=target.name,
        changes=[query_change(row, topology=target.name, partition=label) for label, row in changed.items()],
        actor=actor,
        reason=reason,
    )
    return [rows[label] for label in priorities]
