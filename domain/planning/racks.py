"""What the loss of one rack would take down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from domain.planning.placement import natural_key
from domain.topology import Topology

PRICE = 0.1
"""Share by which epochs may be longer at most, so that the loss of a rack takes down less."""


@dataclass(frozen=True, slots=True, order=True)
class Domain:
    """What is lost at once: a rack, or a node of which no rack is known. The other name is empty."""

    rack: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RackLoss:
    """What the loss of `domain` would take down: each query that has a partition there.

    share: of the priority of all queries, 0 to 1. everything: no query would be left.
    common: a partition that every query needs is there.
    """

    domain: Domain
    queries: tuple[str, ...]
    share: float
    everything: bool
    common: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RackTerms:
    """What moves have to know of racks.

    of: node -> rack, empty where it is not known. priorities: of the queries for which the specification
    does not hold. price: see `PRICE`; 0 if racks do not count.
    """

    of: Mapping[str, str]
    priorities: Mapping[str, int]
    price: float = PRICE


def domain_of(node: str, rack: str) -> Domain:
    return Domain(rack, "") if rack else Domain("", node)


def racks_known(nodes: Collection[str], racks: Mapping[str, str]) -> bool:
    """Whether racks say anything of these nodes: a rack is known, and they are not all in one."""
    return len({domain_of(node, racks.get(node, "")) for node in nodes}) > 1 and any(
        racks.get(node) for node in nodes
    )


def rack_losses(
    topology: Topology,
    assignment: Mapping[str, str],
    racks: Mapping[str, str],
    priorities: Mapping[str, int] | None = None,
) -> tuple[RackLoss, ...]:
    """One entry for each rack, also where nothing of the topology runs; the worst first, then by name.

    assignment: partition -> node. racks: node -> rack of every node that counts, empty where none is known:
    such a node is a rack of its own. What is assigned to another node counts nowhere.
    """
    weights = priorities_of(topology, priorities or {})
    whole = sum(weights.values())
    domains = {node: domain_of(node, rack) for node, rack in racks.items()}
    lost: defaultdict[Domain, set[str]] = defaultdict(set)
    common: set[Domain] = set()
    for partition, needed in topology.sharing.items():
        domain = domains.get(assignment.get(partition, ""))
        if domain is None:
            continue
        if len(needed) == len(weights):
            common.add(domain)
        if len(lost[domain]) < len(weights):
            lost[domain] |= needed
    found = [
        RackLoss(
            domain=domain,
            queries=tuple(sorted(lost[domain], key=natural_key)),
            share=sum(weights[query] for query in lost[domain]) / whole if whole else 0.0,
            everything=bool(weights) and len(lost[domain]) == len(weights),
            common=domain in common,
        )
        for domain in set(domains.values())
    ]
    return tuple(sorted(found, key=lambda one: (-one.share, natural_key(one.domain.rack or one.domain.node))))


def mean_loss(losses: Collection[RackLoss]) -> float:
    """Share of the priority that the loss of a rack takes down, if each rack is equally likely to be lost."""
    return sum(loss.share for loss in losses) / len(losses) if losses else 0.0


def priorities_of(topology: Topology, priorities: Mapping[str, int]) -> dict[str, int]:
    return {query: priorities.get(query, topology.priority(query)) for query in topology.queries}
