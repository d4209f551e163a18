"""Racks as REST shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from controlplane.events.choices import OperationKind
from controlplane.lifecycle.racks import RackOutlook
from controlplane.nodes.permitted import RACK_OF_NODES, rack_refusal


class RackMoveSerializer(serializers.Serializer):
    topology = serializers.CharField()
    partition = serializers.CharField()
    node = serializers.CharField(help_text="which it would leave")
    fits = serializers.BooleanField(help_text="whether another node has room for it")


class RackSerializer(serializers.Serializer):
    """What draining the rack now would do. Percents count one core as 100."""

    name = serializers.CharField()
    nodes = serializers.DictField(child=serializers.CharField(), help_text="node to its state")
    leaving = serializers.ListField(
        child=serializers.CharField(), help_text="nodes that would be drained: alive or suspect"
    )
    draining = serializers.ListField(child=serializers.CharField(), help_text="nodes that are already")
    awaited = serializers.ListField(
        child=serializers.CharField(), help_text="nodes that have not joined yet, and would not be drained"
    )
    moves = RackMoveSerializer(many=True, help_text="partitions that would move")
    needed_percent = serializers.FloatField(help_text="CPU percent that they need")
    free_percent = serializers.FloatField(
        help_text="CPU percent that may still be planned on the nodes that take partitions"
    )
    others = serializers.ListField(child=serializers.CharField(), help_text="nodes that take partitions")
    refusals = serializers.DictField(
        child=serializers.CharField(), help_text="action to why it is refused now"
    )


def rack_shown(outlook: RackOutlook) -> dict[str, Any]:
    found = outlook.evacuation
    return {
        "name": outlook.rack,
        "nodes": outlook.states,
        "leaving": outlook.leaving,
        "draining": outlook.draining,
        "awaited": outlook.awaited,
        "moves": [
            {
                "topology": name,
                "partition": partition,
                "node": node,
                "fits": partition not in found.staying.get(name, ()),
            }
            for name, partitions in found.moving.items()
            for partition, node in partitions.items()
        ],
        "needed_percent": found.needed,
        "free_percent": found.free,
        "others": found.others,
        "refusals": _refusals(outlook.rack, outlook.states),
    }


def _refusals(rack: str, states: Mapping[str, str]) -> dict[str, str]:
    found: dict[OperationKind, str] = {
        kind: rack_refusal(kind, rack=rack, nodes=states) for kind in RACK_OF_NODES
    }
    return {kind.partition(".")[2]: why for kind, why in found.items() if why}
