"""What operators may ask of an incident: the request (checked at once) and carrying it out (write side)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.choices import Door, OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import operation_find, operation_request
from controlplane.incidents.choices import INCIDENT_ENDED
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incident_get
from controlplane.incidents.services import incident_advance
from domain.recovery.events import (
    AbortAsked,
    ApproveAsked,
    Event,
    PauseAsked,
    ReplanAsked,
    ResumeAsked,
)


@transaction.atomic
def incident_action(
    *,
    kind: OperationKind,
    number: int,
    actor: str,
    reason: str,
    door: Door,
    idempotency_key: str = "",
    proposal: str = "",
) -> Operation:
    """Ask for an approval, a pause, ...; the recovery worker carries it out.

    proposal: what is approved; default all that is proposed now.
    Raises `Missing`, or `Conflict` where the incident does not permit it.
    """
    target = str(number)
    earlier = operation_find(kind=kind, target=target, actor=actor, idempotency_key=idempotency_key)
    if earlier is not None:
        if proposal and proposal not in earlier.parameters.get("proposals", ()):
            raise Conflict("this Idempotency-Key was used to approve another proposal; use a new key")
        return earlier
    incident = incident_get(number, lock=True)
    if incident.state in INCIDENT_ENDED:
        raise Conflict(f"incident {number} is {incident.state}; nothing more can be done about it")
    operation, _ = operation_request(
        kind=kind,
        target=target,
        actor=actor,
        reason=reason,
        door=door,
        idempotency_key=idempotency_key,
        before={"state": incident.state, "paused": incident.paused},
        parameters=_permit(incident, kind, proposal),
    )
    return operation


def _permit(incident: Incident, kind: OperationKind, proposal: str) -> dict[str, Any] | None:
    """Raise `Conflict` unless the incident is in a state for this; returns the operation's parameters."""
    if kind == OperationKind.INCIDENT_APPROVE:
        return {"proposals": _proposals(incident, proposal)}
    if kind == OperationKind.INCIDENT_PAUSE and incident.paused:
        raise Conflict(f"incident {incident.number} is paused already")
    if kind == OperationKind.INCIDENT_RESUME and not incident.paused:
        raise Conflict(f"incident {incident.number} is not paused; only a paused recovery can be resumed")
    return None


def _proposals(incident: Incident, proposal: str) -> list[str]:
    present = [waiting["proposal"] for _, waiting in sorted(incident.proposals.items())]
    if not present:
        raise Conflict(f"incident {incident.number} has no plan that waits for a confirmation")
    if proposal and proposal not in present:
        raise Conflict(
            f"proposal {proposal!r} is not on the table: the situation has changed; "
            f"what is proposed now is {', '.join(present)}"
        )
    return [proposal] if proposal else present


def incident_order(
    *,
    kind: OperationKind,
    number: int,
    actor: str,
    reason: str,
    proposals: Iterable[str] = (),
) -> None:
    """Do it. What is already so stays so. Raises `Missing`, or `Conflict` for an incident that has ended and
    for a proposal that was overtaken since it was approved."""
    with transaction.atomic():
        incident = incident_get(number, lock=True)
        if incident.state in INCIDENT_ENDED:
            raise Conflict(f"incident {number} is {incident.state} already")
        wanted = list(proposals)
        if kind == OperationKind.INCIDENT_APPROVE:
            for proposal in wanted:
                _proposals(incident, proposal)
        incident_advance(
            number=number, events=_events(kind, wanted, actor=actor, reason=reason), may_plan=False
        )


def _events(kind: OperationKind, proposals: list[str], *, actor: str, reason: str) -> list[Event]:
    at = timezone.now().timestamp()
    match kind:
        case OperationKind.INCIDENT_APPROVE:
            return [ApproveAsked(at=at, actor=actor, reason=reason, proposal=one) for one in proposals]
        case OperationKind.INCIDENT_PAUSE:
            return [PauseAsked(at=at, actor=actor, reason=reason)]
        case OperationKind.INCIDENT_RESUME:
            return [ResumeAsked(at=at, actor=actor, reason=reason)]
        case OperationKind.INCIDENT_REPLAN:
            return [ReplanAsked(at=at, actor=actor, reason=reason)]
        case OperationKind.INCIDENT_ABORT:
            return [AbortAsked(at=at, actor=actor, reason=reason)]
        case _:
            raise ValueError(f"{kind} is not about an incident")
