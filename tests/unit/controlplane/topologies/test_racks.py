"""What the loss of a single rack would take down, over REST and in the snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.racks import SHOWN, exposure_shown, rack_exposure_note
from controlplane.topologies.telemetry import topology_stopped
from domain.planning.racks import Domain, RackLoss
from tests.unit.controlplane.following import Follower, snapshot_read
from tests.unit.controlplane.specs import BY

UNKNOWN = {"racks": 0, "fatal": 0, "losses": []}


@pytest.fixture
def running(topology: Topology) -> Topology:
    topology_deploy(name="counts", **BY)
    return topology


def place(**nodes: str) -> None:
    """Operators on nodes."""
    for operator, name in nodes.items():
        Partition.objects.filter(operator=operator).update(node=Node.objects.get(name=name.replace("_", "-")))


def noted() -> Any:
    rack_exposure_note()
    return Topology.objects.get().rack_exposure


def test_every_rack_with_a_parser_is_fatal(running: Topology, viewer: APIClient) -> None:
    for index, node in enumerate(Node.objects.filter(name__in=["node-1", "node-2"]).order_by("name")):
        Partition.objects.filter(operator__in=["Source", "Parser"], index=index).update(node=node)
    follower = Follower()
    exposure = noted()
    assert (exposure["racks"], exposure["fatal"]) == (2, 2)
    assert exposure["losses"] == [
        {"rack": rack, "node": "", "queries": 3, "share": 1.0, "common": True}
        for rack in ("rack-a", "rack-b")
    ]
    assert viewer.get("/api/v1/topologies/counts/").json()["rack_exposure"] == exposure
    assert viewer.get("/api/v1/topologies/").json()["results"][0]["rack_exposure"] == exposure
    follower.check()


def test_a_deployment_counts_racks(running: Topology, settings: Any) -> None:
    """What all queries share is in one rack."""
    assert noted()["fatal"] == 1
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    settings.RESURGE = replace(settings.RESURGE, rack_price=0.0)
    topology_deploy(name="counts", **BY)
    assert noted()["fatal"] == 2


def test_only_what_changes_is_told(running: Topology) -> None:
    noted()
    follower = Follower()
    before = follower.sequence
    noted()
    follower.follow()
    assert follower.sequence == before
    Query.objects.filter(partition__operator="O1").update(priority=4)
    place(Source="node-1", Parser="node-1", O0="node-3", O1="node-2")
    exposure = noted()
    assert (exposure["fatal"], [one["share"] for one in exposure["losses"]]) == (1, [1.0, 0.4])
    assert exposure["losses"][1] | {"rack": ""} == {
        "rack": "", "node": "", "queries": 1, "share": 0.4, "common": False,
    }  # fmt: skip
    follower.follow()
    assert follower.entities["topology"]["counts"]["rack_exposure"] == exposure
    assert snapshot_read()["entities"]["topology"]["counts"]["rack_exposure"] == exposure


def test_what_a_replica_in_another_rack_takes_over_is_not_lost(running: Topology) -> None:
    """node-1 and node-3 are in rack-a, node-2 and node-4 in rack-b."""
    place(Source="node-1", Parser="node-1", O0="node-3", O1="node-2")
    assert noted()["fatal"] == 1
    names = [one.label for one in Partition.objects.filter(operator__in=("Source", "Parser"))]

    def with_replicas(node: str, *, caught_up: bool = True, of: list[str] = names) -> Any:
        shadows = {one: {"node": node, "caught_up": caught_up, "lacks": 0} for one in of}
        Topology.objects.update(shadows=shadows)
        return noted()

    exposure = with_replicas("node-4")
    assert exposure["fatal"] == 0
    by_rack = {one["rack"]: (one["queries"], one["common"]) for one in exposure["losses"]}
    assert by_rack == {"rack-a": (2, False), "rack-b": (1, False)}, "what has no replica"
    assert with_replicas("node-4", of=names[1:])["fatal"] == 1, "one partition that all need has none"
    assert with_replicas("node-3")["fatal"] == 1, "in the same rack"
    assert with_replicas("node-4", caught_up=False)["fatal"] == 1
    assert with_replicas("node-9")["fatal"] == 1, "a node that is gone"


def test_a_node_without_a_rack_is_one_of_its_own(running: Topology) -> None:
    Node.objects.filter(name__in=["node-1", "node-2"]).update(rack="")
    place(Source="node-1", Parser="node-1", O0="node-1", O1="node-1")
    exposure = noted()
    assert (exposure["racks"], exposure["fatal"]) == (4, 1)
    assert exposure["losses"][0]["node"] == "node-1"
    assert {(one["rack"], one["node"], one["queries"]) for one in exposure["losses"][1:]} == {
        ("", "node-2", 0), ("rack-a", "", 0), ("rack-b", "", 0),
    }  # fmt: skip


def test_nothing_is_said_while_no_rack_is_known(running: Topology) -> None:
    Node.objects.update(rack="")
    assert noted() == UNKNOWN


def test_one_rack_is_one(running: Topology) -> None:
    Node.objects.update(rack="rack-a")
    Node.objects.filter(name="node-4").update(state="lost", rack="rack-b")
    exposure = noted()
    assert (exposure["racks"], exposure["fatal"]) == (1, 1)


def test_a_topology_that_stops_has_nothing_to_lose(running: Topology) -> None:
    assert noted() != UNKNOWN
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    assert noted() == UNKNOWN


def test_of_many_racks_the_worst_are_named() -> None:
    losses = [
        RackLoss(domain=Domain(f"r{i}", ""), queries=("q",), share=1.0, everything=True, common=True)
        for i in range(SHOWN + 4)
    ]
    exposure = exposure_shown(losses)
    assert (exposure["racks"], exposure["fatal"], len(exposure["losses"])) == (SHOWN + 4, SHOWN + 4, SHOWN)
