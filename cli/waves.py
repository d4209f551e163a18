"""The plans of an incident as waves: how far each is, what it brings back or moves, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.words import by_name, listed, plural

Plan = Mapping[str, Any]


def wave_state(plan: Plan) -> str:
    """The plan's state for the operator: an applied plan replays until its partitions have caught up."""
    shown = str(plan["state"])
    if shown in ("applied", "superseded") and plan["caught_up_at"]:
        return "caught up"
    if shown != "applied":
        return shown
    return "catching up" if wave_moves(plan) else "replaying"


def wave_moves(plan: Plan) -> bool:
    """Whether the plan or proposal moves partitions that run; else it restores what has failed."""
    return bool(plan["method"] == "move")


def wave_partitions(plan: Plan) -> str:
    """`4 partitions`; of a move `4 partitions moved`, or `to move` before the driver has applied it."""
    found = plural(len(plan["restore"]), "partition")
    if not wave_moves(plan):
        return found
    return f"{found} moved" if plan.get("applied_at") else f"{found} to move"


def wave_queries(plan: Plan) -> list[str]:
    found = (plan.get("explanation") or {}).get("queries")
    return [str(query) for query in found] if isinstance(found, list) else []


def wave_nodes(plan: Plan) -> list[str]:
    """The nodes on which it restores partitions, or to which it moves them."""
    homes = {plan["assignment"].get(partition) for partition in plan["restore"]}
    return sorted((str(node) for node in homes if node), key=by_name)


def wave_places(plan: Plan, most: int) -> str:
    """`on node-5, node-6`, or `from node-1 to node-5, node-6`."""
    nodes = listed(wave_nodes(plan), most)
    left = (plan.get("explanation") or {}).get("moved_from")
    if not wave_moves(plan) or not isinstance(left, dict):
        return f"on {nodes}"
    return f"from {listed({str(node) for node in left.values()}, most)} to {nodes}"
