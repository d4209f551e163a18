"""Which replicas a topology has, and what it would give without a rack or a node (read side)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controlplane.nodes.choices import NODE_PRESENT
from controlplane.nodes.models import Node
from controlplane.replication.answering import budget_of, next_replica_answer
from controlplane.replication.models import ReplicaPlacement
from controlplane.replication.selectors import Measured, measured_load
from controlplane.topologies.choices import Guarantee, ReplicationMode
from controlplane.topologies.models import Partition, Topology
from controlplane.topologies.policies import NO_REPLICAS
from controlplane.topologies.selectors import topology_get
from domain.planning import natural_key
from domain.replication import FidelityModel
from domain.replication.losses import what_is_left
from domain.topology import partition_id


def replicas_answer(name: str) -> dict[str, Any]:
    """The replicas of a topology as they are, as plain data. Raises `Missing`."""
    topology = topology_get(name, spec=False)
    measured = measured_load(name)
    row = ReplicaPlacement.objects.filter(topology=topology).first() or ReplicaPlacement(topology=topology)
    model, nodes, homes, ready = _placed(topology, measured)
    return {
        "topology": name,
        "mode": topology.replication_mode,
        "budget": budget_of(measured),
        "planner": topology.replication_planner,
        "note": NO_REPLICAS if measured.graph.spec.bounded else row.note,
        "revision": row.revision,
        "changed_at": row.changed_at,
        "replicas": _replicas(topology, row, homes),
        "unplaced": row.unplaced,
        "waiting": row.waiting,
        "acting": topology.acting,
        "next": next_replica_answer(measured) if _may_have_more(topology) else None,
        "fidelity": _outlook(model, homes, {}, nodes.keys())["fidelity"],
        "losses": [
            {"kind": kind, "name": lost, **_outlook(model, homes, ready, nodes.keys() - gone)}
            for kind, lost, gone in _domains(nodes, {*homes.values(), *ready.values()})
        ],
    }


def _may_have_more(topology: Topology) -> bool:
    return topology.replication_mode == ReplicationMode.ON and topology.guarantee != Guarantee.BOUNDED


def losses_of_racks(name: str, *, most_partitions: int) -> tuple[float, dict[str, float]] | None:
    """The fidelity with the present nodes and the replicas that have caught up, and by rack what would be
    left without it. None for a topology of more partitions. Raises `Missing`."""
    measured = measured_load(name)
    if len(measured.graph.partitions) > most_partitions:
        return None
    model, nodes, homes, ready = _placed(topology_get(name, spec=False), measured)
    racks = {
        lost: float(_outlook(model, homes, ready, nodes.keys() - gone)["fidelity"])
        for kind, lost, gone in _domains(nodes, {*homes.values(), *ready.values()})
        if kind == "rack"
    }
    return float(_outlook(model, homes, ready, nodes.keys())["fidelity"]), racks


def _placed(
    topology: Topology, measured: Measured
) -> tuple[FidelityModel, dict[str, str], dict[str, str], dict[str, str]]:
    """The model, the rack of each node that is present, the home of each partition ("": none), and the node
    of each replica that has caught up."""
    model = FidelityModel(measured.graph, measured.rates, "weighted", measured.priorities, measured.flows)
    nodes = dict(Node.objects.filter(state__in=NODE_PRESENT).values_list("name", "rack"))
    rows = Partition.objects.filter(topology=topology).values_list("operator", "index", "node__name")
    placed = {partition_id(operator, index): node or "" for operator, index, node in rows}
    homes = {partition: placed.get(partition, "") for partition in measured.graph.partitions}
    ready = {p: one["node"] for p, one in topology.shadows.items() if one["caught_up"]}
    return model, nodes, homes, ready


def _replicas(
    topology: Topology, row: ReplicaPlacement, homes: Mapping[str, str]
) -> Iterable[dict[str, Any]]:
    seen = topology.shadows
    for partition in sorted({*row.assignment, *seen}, key=natural_key):
        node = row.assignment.get(partition) or seen[partition]["node"]
        there = partition in seen and seen[partition]["node"] == node
        yield {
            "partition": partition,
            "node": homes.get(partition) or None,
            "replica": node,
            "wanted": partition in row.assignment,
            "caught_up": there and seen[partition]["caught_up"],
            "acts": topology.acting.get(partition) == node,
        }


def _domains(nodes: Mapping[str, str], used: Collection[str]) -> Iterable[tuple[str, str, frozenset[str]]]:
    """What may be lost at once: each rack, and each node, of those that run anything."""
    racks = sorted({nodes[node] for node in used if nodes.get(node)}, key=natural_key)
    for rack in racks:
        yield "rack", rack, frozenset(node for node, where in nodes.items() if where == rack)
    for node in sorted((node for node in used if node in nodes), key=natural_key):
        yield "node", node, frozenset({node})


def _outlook(
    model: FidelityModel, homes: Mapping[str, str], ready: Mapping[str, str], alive: Collection[str]
) -> dict[str, Any]:
    """What queries give when only these nodes are left, and replicas that have caught up act."""
    runs = [
        partition
        for partition in model.partitions
        if homes[partition] in alive or ready.get(partition) in alive
    ]
    left = what_is_left(model, runs)
    return {
        "fidelity": left.fidelity,
        "stop": left.those("stops"),
        "lack_input": left.those("lacks_input"),
    }
