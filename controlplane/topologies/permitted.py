"""What a topology permits in the state it is in, and why not the rest.

The services refuse by these rules, and snapshot, events and REST tell what they refuse: pages and the command
line have no rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from controlplane.errors import Conflict
from controlplane.topologies.choices import (
    TOPOLOGY_AT_REST,
    TOPOLOGY_LIVE,
    Desired,
    Guarantee,
    TopologyStatus,
)
from controlplane.topologies.models import Topology

Rule = Callable[[str, str, str, str], str]
"""Name, status, what is desired and the guarantee, to why not; "" where it is permitted."""

NO_CHECKPOINT = (
    "its guarantee is bounded: states of keys are stored one by one, and there is no checkpoint of the whole"
)


def _at_rest(action: str) -> Rule:
    """No driver may run, or be wanted: a failed one is started again for as long as it is."""

    def refusal(name: str, status: str, desired: str, guarantee: str) -> str:
        retried = status == TopologyStatus.FAILED and desired == Desired.RUNNING
        if status in TOPOLOGY_AT_REST and not retried:
            return ""
        return f"topology {name!r} is {status}; undeploy it before you {action} it"

    return refusal


def _deployed(permitted: frozenset[str], words: str) -> Rule:
    """It must be wanted, and in one of these states."""

    def refusal(name: str, status: str, desired: str, guarantee: str) -> str:
        if status in permitted and desired == Desired.RUNNING:
            return ""
        return f"topology {name!r} is {status}: {words}"

    return refusal


def _of_the_whole(rule: Rule) -> Rule:
    """It also needs checkpoints of the whole topology."""

    def refusal(name: str, status: str, desired: str, guarantee: str) -> str:
        if guarantee == Guarantee.BOUNDED:
            return f"topology {name!r}: {NO_CHECKPOINT}"
        return rule(name, status, desired, guarantee)

    return refusal


def _always(name: str, status: str, desired: str, guarantee: str) -> str:
    return ""


def _verify(name: str, status: str, desired: str, guarantee: str) -> str:
    ran = status != TopologyStatus.DRAFT
    return "" if ran else f"topology {name!r} has never been deployed: there is nothing to verify"


def _undeploy(name: str, status: str, desired: str, guarantee: str) -> str:
    return "" if desired != Desired.STOPPED else f"topology {name!r} is not deployed (it is {status})"


_RUNNING = frozenset({TopologyStatus.RUNNING, TopologyStatus.DEGRADED})

RULES: dict[str, Rule] = {
    "deploy": _at_rest("deploy"),
    "update": _at_rest("update"),
    "delete": _at_rest("delete"),
    "undeploy": _undeploy,
    "checkpoint": _of_the_whole(_deployed(_RUNNING, "only a running topology can take a checkpoint")),
    "savepoint": _of_the_whole(_always),
    "recover": _deployed(
        TOPOLOGY_LIVE | {TopologyStatus.FAILED}, "only a deployed topology can be recovered"
    ),
    "rebalance": _deployed(_RUNNING, "only partitions that run can move to other nodes"),
    "park": _deployed(_RUNNING, "only queries that run can be parked"),
    "unpark": _deployed(TOPOLOGY_LIVE, "only queries of a deployed topology can return"),
    "pause": _deployed(_RUNNING, "only a running topology can be paused"),
    "resume": _deployed(frozenset({TopologyStatus.PAUSED}), "only a paused topology can be resumed"),
    "restore": _of_the_whole(
        _deployed(frozenset({TopologyStatus.RUNNING}), "only a running one can be put back to a checkpoint")
    ),
    "verify": _verify,
}


def permit(topology: Topology, action: str) -> None:
    """Raise `Conflict`, in words for an operator, where the topology refuses this action now."""
    if refusal := RULES[action](topology.name, topology.status, topology.desired, topology.guarantee):
        raise Conflict(refusal)


def topology_refusals(topology: Topology) -> dict[str, str]:
    """Action to why it is refused now; an action that is not named is permitted."""
    given = topology.name, str(topology.status), str(topology.desired), str(topology.guarantee)
    return dict(_refusals(*given))


@lru_cache(maxsize=1024)
def _refusals(name: str, status: str, desired: str, guarantee: str) -> tuple[tuple[str, str], ...]:
    found = ((action, rule(name, status, desired, guarantee)) for action, rule in RULES.items())
    return tuple((action, why) for action, why in found if why)
