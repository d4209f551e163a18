"""What operators see of a recovery's orders and proposals: columns of the incident that follow its machine.

The facts of the story stay the record; the machine is rebuilt from these alone.
"""

from __future__ import annotations

from controlplane.incidents.models import Incident
from domain.recovery.incident import ENDED_STATES
from domain.recovery.machine import IncidentMachine

SHOWN = ("proposal", "generation", "wave", "method", "rollback", "restore", "queries", "reason")


def proposals_follow(incident: Incident, machine: IncidentMachine) -> None:
    """Bring `paused` and `proposals` up to date; the caller saves."""
    incident.paused = machine.memory.paused and machine.state not in ENDED_STATES
    incident.proposals = {
        topology: {name: getattr(proposed, name) for name in SHOWN}
        for topology, proposed in machine.open_proposals().items()
    }
