"""A running topology with a bounded guarantee: the states of its keys are stored, but not those of a node."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Partition, Topology
from domain.messages import NodeKeys

FAILING = "node-6"
"""The node that is not able to store."""


def bounded_write(topology: Topology, now: datetime) -> None:
    """Make it one. Its nodes are those of its partitions."""
    spec = {**topology.spec, "guarantee": "bounded", "key_saving": {"every": "5s"}}
    data = graph_of(spec).to_data()
    topology.spec, topology.deployed_spec, topology.guarantee = data, data, "bounded"
    topology.checkpoint_epoch = 0
    rows = Partition.objects.filter(topology=topology, node__isnull=False)
    names = sorted(set(rows.values_list("node__name", flat=True)))
    topology.keys = {
        name: msgspec.structs.asdict(_failing(now) if name == FAILING else _stored(number))
        for number, name in enumerate(names)
    }
    topology.save()


def keys_beat(topology: Topology, turn: int) -> None:
    """A second later; the caller saves and tells the row."""
    for name, told in topology.keys.items():
        if name == FAILING:
            told.update(changed=told["changed"] + 41, oldest=told["oldest"] + 1)
        else:
            stored = told["stored"] + 210
            told.update(stored=stored, stored_bytes=stored * 97, changed=(turn * 53) % 900, oldest=turn % 5)


def _stored(number: int) -> NodeKeys:
    stored = 84_000 + 3_100 * number
    return NodeKeys(
        stored=stored,
        stored_bytes=stored * 97,
        segments=410 + number,
        changed=180 + 40 * number,
        oldest=2.5,
        fetched=1_250 if number == 2 else 0,
        unknown=87 if number == 2 else 0,
        lost_rows=412 if number == 2 else 0,
    )


def _failing(now: datetime) -> NodeKeys:
    return NodeKeys(
        stored=52_400,
        stored_bytes=5_082_800,
        segments=240,
        waiting=14,
        storing_failures=9,
        storing_bypassed_until=(now + timedelta(minutes=5)).timestamp(),
        error="redis://127.0.0.1:6390/0 does not answer: connection refused",
        changed=3_870,
        oldest=64.0,
        bypassed=211,
        refused=35,
    )
