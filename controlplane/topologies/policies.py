"""How a topology is to be recovered: its policy, and changing it (write side)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import transaction

from controlplane.errors import Invalid
from controlplane.events.audit import audit_record
from controlplane.events.choices import Door, EventKind
from controlplane.events.operations import reason_require
from controlplane.events.representation import POLICY_FIELDS, topology_change
from controlplane.events.services import event_publish
from controlplane.incidents.stepping import incidents_step_on_commit
from controlplane.preconditions import ANYTHING, Expected
from controlplane.topologies.choices import (
    PLANNER_CHOICES,
    REPLICATION_PLANNER_CHOICES,
    ApprovalPolicy,
    MethodPolicy,
    RollbackPolicy,
)
from controlplane.topologies.models import Topology
from controlplane.topologies.selectors import topology_get
from controlplane.topologies.tags import policy_tag
from domain.recovery.policy import RecoveryPolicy
from domain.topology.spec import MAX_PARTITIONS

_CHOICES: dict[str, list[str]] = {
    "method": list(MethodPolicy.values),
    "planner": [name for name, _ in PLANNER_CHOICES],
    "rollback": list(RollbackPolicy.values),
    "approval": list(ApprovalPolicy.values),
    "replication_planner": [name for name, _ in REPLICATION_PLANNER_CHOICES],
}
HIGHEST_THRESHOLD = 100_000


def policy_of(topology: Topology) -> RecoveryPolicy:
    """The policy in force; numbers that are not set are the installation's."""
    threshold, window = topology.correlation_threshold, topology.correlation_window
    return RecoveryPolicy(
        method=topology.method,
        planner=topology.planner,
        rollback=topology.rollback,
        approval=topology.approval,
        correlation_threshold=settings.RESURGE.correlation_threshold if threshold is None else threshold,
        correlation_window=settings.RESURGE.correlation_window if window is None else window,
    )


@transaction.atomic
def topology_policy_set(
    *,
    name: str,
    changes: Mapping[str, Any],
    actor: str,
    reason: str,
    door: Door,
    expected: Expected = ANYTHING,
) -> Topology:
    """Change some fields of the policy, also while an incident is open: it is looked at again at once.

    Raises `Missing`, `Invalid` with the field's name or, where it is not the policy expected, `Stale`.
    """
    reason_require(reason)
    topology = topology_get(name, lock=True)
    expected.require(policy_tag(topology), f"the policy of {name}")
    for field, value in changes.items():
        _require(field, value)
    before = {field: getattr(topology, field) for field in changes}
    after = {field: value for field, value in changes.items() if before[field] != value}
    if not after:
        return topology
    for field, value in after.items():
        setattr(topology, field, value)
    topology.save(update_fields=[*after, "updated_at"])
    audit_record(
        actor=actor,
        door=door,
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
    return topology


def _require(field: str, value: Any) -> None:
    """Raise `Invalid` unless the policy may have this value."""
    if field in _CHOICES:
        if value not in _CHOICES[field]:
            raise Invalid(field, f"{value!r} is not one of {', '.join(_CHOICES[field])}")
        return
    if field not in POLICY_FIELDS:
        raise Invalid(field, f"a policy has no field {field!r}; it has {', '.join(POLICY_FIELDS)}")
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number:
        raise Invalid(field, f"{value!r} is not a number")
    if field == "correlation_threshold" and (value != int(value) or not 1 <= value <= HIGHEST_THRESHOLD):
        raise Invalid(field, f"{value!r} is not a whole number of nodes from 1 to {HIGHEST_THRESHOLD}")
    if field == "replication_budget":
        if value != int(value) or not 0 <= value <= MAX_PARTITIONS:
            raise Invalid(field, f"{value!r} is not a whole number of partitions from 0 to {MAX_PARTITIONS}")
        return
    if value < 0:
        raise Invalid(field, f"{value!r} s is less than none")
