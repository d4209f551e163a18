"""The plans of an incident as waves: how far each is, what it brings back, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.words import by_name

Plan = Mapping[str, Any]


def wave_state(plan: Plan) -> str:
    """The plan's state for the operator: an applied plan replays until its partitions have caught up."""
    shown = str(plan["state"])
    if shown in ("applied", "superseded") and plan["caught_up_at"]:
        return "caught up"
    return "replaying" if shown == "applied" else shown


def wave_queries(plan: Plan) -> list[str]:
    found = (plan.get("explanation") or {}).get("queries")
    return [str(query) for query in found] if isinstance(found, list) else []


def wave_nodes(plan: Plan) -> list[str]:
    """The nodes on which it restores partitions."""
    homes = {plan["assignment"].get(partition) for partition in plan["restore"]}
    return sorted((str(node) for node in homes if node), key=by_name)
