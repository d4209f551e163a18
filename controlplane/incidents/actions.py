"""What operators may ask of an incident: the request (checked at once) and carrying it out (write side)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.choices import OPERATION_OPEN, OperationKind, OperationState
from controlplane.events.models import Operation
from controlplane.events.operations import Asked, Permission, operation_request
from controlplane.events.services import writing
from controlplane.incidents.choices import INCIDENT_ENDED
from controlplane.incidents.models import Incident
from controlplane.incidents.permitted import incident_refusal
from controlplane.incidents.selectors import incident_get
from controlplane.incidents.services import incident_advance
from domain.recovery.events import (
    AbortAsked,
    AcceptAsked,
    ApproveAsked,
    Event,
    PauseAsked,
    ReplanAsked,
    ResumeAsked,
)


@writing
def incident_action(
    *,
    kind: OperationKind,
    number: int,
    proposal: str = "",
    **asked: Unpack[Asked],
) -> Operation:
    """Ask for an approval, a pause, ...; the recovery worker carries it out.

    proposal: what is approved; default all that is proposed now.
    Raises `Missing`, or `Conflict` where the incident does not permit it.
    """

    def permit() -> Permission:
        incident = incident_get(number, lock=True)
        parameters = None
        if kind == OperationKind.INCIDENT_APPROVE and incident.state not in INCIDENT_ENDED:
            parameters = {"proposals": _to_approve(incident, proposal)}
        if refusal := incident_refusal(incident, kind):
            raise Conflict(refusal)
        before = {"state": incident.state, "paused": incident.paused}
        return Permission(before=before, parameters=parameters)

    operation = operation_request(
        kind=kind,
        target=str(number),
        permit=permit,
        **asked,
    )
    if proposal and proposal not in operation.parameters.get("proposals", ()):
        raise Conflict("this Idempotency-Key was used to approve another proposal; use a new key")
    return operation


def _to_approve(incident: Incident, proposal: str) -> list[str]:
    """Raises `Conflict`; where another request was first, it says whose."""
    requests = Operation.objects.filter(kind=OperationKind.INCIDENT_APPROVE, target=str(incident.number))
    approvals: dict[str, Operation] = {}
    for request in requests.exclude(state=OperationState.FAILED).order_by("created_at"):
        approvals |= dict.fromkeys(request.parameters.get("proposals", ()), request)
    present = [waiting["proposal"] for _, waiting in sorted(incident.proposals.items())]
    wanted = [proposal] if proposal else present
    # What was approved before and waits is proposed anew, as after a `replan`.
    left = [
        one
        for one in wanted
        if one in present and not (one in approvals and approvals[one].state in OPERATION_OPEN)
    ]
    if left:
        return left
    before = wanted if wanted else [*approvals][-1:]
    if not before or before[0] not in approvals:
        return _proposals(incident, proposal)
    request = approvals[before[0]]
    raise Conflict(
        f"incident {incident.number}: proposal {before[0]} was approved by {request.requested_by} at "
        f"{request.created_at:%Y-%m-%d %H:%M:%S} UTC already ({request.reason})"
    )


def _proposals(incident: Incident, proposal: str) -> list[str]:
    present = [waiting["proposal"] for _, waiting in sorted(incident.proposals.items())]
    if not present:
        raise Conflict(f"incident {incident.number} has no plan that waits for approval")
    if proposal and proposal not in present:
        raise Conflict(
            f"proposal {proposal!r} is no longer proposed: the situation has changed; "
            f"what is proposed now is {', '.join(present)}"
        )
    return [proposal] if proposal else present


@writing
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
    incident = incident_get(number, lock=True)
    if incident.state in INCIDENT_ENDED:
        raise Conflict(f"incident {number} is {incident.state} already")
    wanted = list(proposals)
    if kind == OperationKind.INCIDENT_APPROVE:
        for proposal in wanted:
            _proposals(incident, proposal)
    incident_advance(number=number, events=_events(kind, wanted, actor=actor, reason=reason), may_plan=False)


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
        case OperationKind.INCIDENT_ACCEPT:
            return [AcceptAsked(at=at, actor=actor, reason=reason)]
        case OperationKind.INCIDENT_ABORT:
            return [AbortAsked(at=at, actor=actor, reason=reason)]
        case _:
            raise ValueError(f"{kind} is not about an incident")
