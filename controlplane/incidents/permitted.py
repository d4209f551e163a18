"""What an incident permits in the state it is in, and why not the rest."""

from __future__ import annotations

from controlplane.events.choices import OperationKind
from controlplane.incidents.choices import INCIDENT_ENDED, IncidentState
from controlplane.incidents.models import Incident

_KINDS = (
    OperationKind.INCIDENT_APPROVE,
    OperationKind.INCIDENT_PAUSE,
    OperationKind.INCIDENT_RESUME,
    OperationKind.INCIDENT_ABORT,
    OperationKind.INCIDENT_REPLAN,
    OperationKind.INCIDENT_ACCEPT,
)


def incident_refusal(incident: Incident, kind: OperationKind) -> str:
    """Why the incident refuses this now; "" where it is permitted."""
    number = incident.number
    if incident.state in INCIDENT_ENDED:
        return f"incident {number} is {incident.state}; no action on it is possible any more"
    if kind == OperationKind.INCIDENT_APPROVE and not incident.proposals:
        return f"incident {number} has no plan that waits for approval"
    if kind == OperationKind.INCIDENT_PAUSE and incident.paused:
        return f"incident {number} is paused already"
    if kind == OperationKind.INCIDENT_RESUME and not incident.paused:
        return f"incident {number} is not paused; only a paused recovery can be resumed"
    if kind == OperationKind.INCIDENT_ACCEPT and incident.state != IncidentState.CATCHING_UP:
        return f"incident {number} is not catching up: what it took down is still to be restored"
    return ""


def incident_refusals(incident: Incident) -> dict[str, str]:
    """Action to why it is refused now; an action that is not named is permitted."""
    found = ((kind.partition(".")[2], incident_refusal(incident, kind)) for kind in _KINDS)
    return {action: why for action, why in found if why}
