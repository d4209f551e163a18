"""What the guarantee of a topology means for what is shown of it, and for what actions will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.asking import Effect
from cli.words import DASH, count, plural, size


def bounded(row: Mapping[str, Any]) -> bool:
    """Of a topology: it has no checkpoints, and the states of its keys are stored one by one."""
    return bool(row["guarantee"] == "bounded")


def checkpoint_epoch(row: Mapping[str, Any]) -> str:
    """The epoch of the newest one."""
    return DASH if bounded(row) else count(row["checkpoint_epoch"])


def keys(row: Mapping[str, Any]) -> str | None:
    """What became of the states of keys, on all nodes together; None where there is nothing to tell."""
    nodes = row["keys"].values()
    if not nodes:
        return None
    stored, changed = (count(sum(one[name] for one in nodes)) for name in ("stored", "changed"))
    bypassed = sum(bool(one["storing_bypassed_until"] or one["fetching_bypassed_until"]) for one in nodes)
    storage = f", storage bypassed by {plural(bypassed, 'node')}" if bypassed else ""
    stored_bytes = size(sum(one["stored_bytes"] for one in nodes))
    return f"{stored} stored ({stored_bytes}), {changed} changed and not stored yet{storage}"


def undeploy_effect(row: Mapping[str, Any]) -> Effect:
    if bounded(row):
        return Effect("Its guarantee is bounded: there is no checkpoint, and a deployment begins anew.")
    return Effect("If all is well it leaves a checkpoint, from which `deploy --continue` goes on.")


def recover_effects(row: Mapping[str, Any], down: list[str]) -> list[Effect]:
    """What becomes of the partitions that are down, and how much is computed again."""
    restored = Effect(f"{plural(len(down), 'partition is', 'partitions are')} restored", down, warning=True)
    if bounded(row):
        return [
            restored if down else Effect("No partition has failed."),
            Effect("Its guarantee is bounded: partitions begin without state where that is lost."),
            Effect("The state of a key is fetched when its first row arrives."),
        ]
    all_back = "No partition has failed: the whole topology goes back to its checkpoint."
    behind = max(0, row["head_epoch"] - row["checkpoint_epoch"])
    return [
        restored if down else Effect(all_back, warning=True),
        Effect(f"The checkpoint is at epoch {count(row['checkpoint_epoch'])}."),
        Effect(f"{plural(behind, 'epoch is', 'epochs are')} replayed."),
    ]


def park_effects(row: Mapping[str, Any]) -> list[Effect]:
    if bounded(row):
        missed = "What they miss is lost, because the guarantee of the topology is bounded."
        return [Effect(missed, warning=True)]
    return [
        Effect("What they miss is kept, and computed when they return."),
        Effect("No checkpoint completes, and disks fill, until all queries are unparked.", warning=True),
    ]


def unpark_effect(row: Mapping[str, Any]) -> Effect:
    if bounded(row):
        return Effect("They go on without what they missed: the guarantee of the topology is bounded.")
    return Effect("They start from the newest checkpoint and replay what they missed.")
