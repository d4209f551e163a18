"""What operators see of orders and proposals: columns of the incident that follow the facts of its story.

The truth stays with the facts; the machine is rebuilt from these alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.incidents.models import Incident

SHOWN = ("proposal", "generation", "wave", "method", "rollback", "restore", "queries", "reason")


def proposals_follow(incident: Incident, fact: Mapping[str, Any]) -> None:
    """Bring `paused` and `proposals` up to date with one fact; the caller saves."""
    match fact.get("fact"):
        case "paused" | "resumed" as what:
            incident.paused = what == "paused"
        case "proposed":
            shown = {name: fact[name] for name in SHOWN}
            incident.proposals = {**incident.proposals, fact["topology"]: shown}
        case "withdrawn" | "dropped" | "unrestored":
            incident.proposals = {k: v for k, v in incident.proposals.items() if k != fact["topology"]}
        case "approved":
            approved = fact["proposal"]
            incident.proposals = {k: v for k, v in incident.proposals.items() if v["proposal"] != approved}
        case "replan":
            incident.proposals = {}
