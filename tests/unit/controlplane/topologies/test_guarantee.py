"""What a bounded guarantee changes: no checkpoint of the whole, and what the driver says of keys."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from msgspec import structs
from rest_framework.test import APIClient

from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.errors import Conflict
from controlplane.events.models import Event
from controlplane.lifecycle.deployment import deploy_plan_create
from controlplane.lifecycle.savepoints import savepoint_request
from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, Start, TopologyStatus
from controlplane.topologies.drawing import topology_graph
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.permitted import NO_CHECKPOINT, RULES, topology_refusals
from controlplane.topologies.services import topology_create, topology_update
from controlplane.topologies.telemetry import driver_status_apply, topology_stopped
from domain.messages import DriverState, NodeKeys
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, driver_status, spec_of

API = "/api/v1/topologies/counts/"
KEYS = NodeKeys(stored=40, stored_bytes=9_000, changed=3, oldest=1.5, storing_bypassed_until=2_000_000_000.0)
OF_THE_WHOLE = {"checkpoint", "restore", "savepoint"}


def bounded_spec(**more: Any) -> dict[str, Any]:
    return {**spec_of(), "guarantee": "bounded", **more}


@pytest.fixture
def bounded(nodes: list[Node]) -> Topology:
    return topology_create(spec=bounded_spec(), **BY)


@pytest.fixture
def running(bounded: Topology) -> Topology:
    topology_deploy(name="counts", **BY)
    driver_status_apply(status=driver_status(Topology.objects.get()))
    return Topology.objects.get()


def say(state: DriverState = "running", **more: Any) -> Topology:
    driver_status_apply(status=structs.replace(driver_status(Topology.objects.get(), state), **more))
    return Topology.objects.get()


def test_the_guarantee_is_that_of_the_newest_version(topology: Topology, viewer: APIClient) -> None:
    assert viewer.get(API).json()["guarantee"] == "exact"
    follower = Follower()
    topology_update(name="counts", spec=bounded_spec(), **BY)
    assert viewer.get(API).json()["guarantee"] == Topology.objects.get().guarantee == "bounded"
    follower.check()
    topology_deploy(name="counts", **BY)
    assert Topology.objects.get().guarantee == "bounded"
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    topology_update(name="counts", spec=spec_of(), **BY)
    assert Topology.objects.get().guarantee == "exact"


def test_deploying_says_what_the_newest_version_says(topology: Topology) -> None:
    """Such as in a database whose rows are older than the field."""
    topology_update(name="counts", spec=bounded_spec(), **BY)
    Topology.objects.update(guarantee="exact")
    topology_deploy(name="counts", **BY)
    assert Topology.objects.get().guarantee == "bounded"


def test_the_graph_says_how_often_states_are_stored() -> None:
    spec = bounded_spec(key_saving={"every": "5m"})
    spec["operators"][2]["every"] = "500 events"
    stored = graph_of(spec).to_data()
    told = {one["name"]: one["every"] for one in topology_graph(stored)["operators"]}
    assert told == {"Source": "5m", "Parser": "5m", "O0": "500 events", "O1": "5m"}
    usual = {one["every"] for one in topology_graph(bounded_spec())["operators"]}
    assert usual == {"20s"}, "as where a specification is stored without defaults"
    assert {one["every"] for one in topology_graph(spec_of())["operators"]} == {""}


# ---- what is permitted ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", TopologyStatus)
@pytest.mark.parametrize("desired", Desired)
def test_only_what_needs_a_checkpoint_of_the_whole_is_refused_besides(
    status: TopologyStatus, desired: Desired
) -> None:
    exact = topology_refusals(Topology(name="t", status=status, desired=desired))
    refusals = topology_refusals(Topology(name="t", status=status, desired=desired, guarantee="bounded"))
    for action in RULES.keys() - OF_THE_WHOLE:
        assert refusals.get(action) == exact.get(action), action
    assert {refusals[action] for action in OF_THE_WHOLE} == {f"topology 't': {NO_CHECKPOINT}"}


def test_rest_refuses_with_the_reason(running: Topology, operator: APIClient) -> None:
    for address, body in (
        ("checkpoint/", {}),
        ("restore/", {"checkpoint": 4}),
        ("savepoints/", {"name": "a"}),
    ):
        answer = operator.post(f"{API}{address}", {"reason": "a test", **body}, format="json")
        assert answer.status_code == 409, address
        assert NO_CHECKPOINT in answer.json()["errors"][0]["message"]
    assert not Savepoint.objects.exists()
    for action in ("pause/", "recover/", "rebalance/"):
        assert operator.post(f"{API}{action}", {"reason": "a test"}).status_code == 202, action


def test_a_checkpoint_of_an_exact_version_is_not_copied_for_a_bounded_one(topology: Topology) -> None:
    Checkpoint.objects.create(
        topology=topology, epoch=4, state="completed", stored=True, started_at=timezone.now()
    )
    topology_update(name="counts", spec=bounded_spec(), **BY)
    with pytest.raises(Conflict, match="there is no checkpoint of the whole"):
        savepoint_request(topology="counts", name="before-v2", **BY)


@pytest.mark.parametrize("start", [Start.CHECKPOINT, Start.SAVEPOINT])
def test_it_begins_without_the_state_of_an_exact_version(
    topology: Topology, viewer: APIClient, start: Start
) -> None:
    topology_deploy(name="counts", **BY)
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    row = Topology.objects.get()
    Checkpoint.objects.create(
        topology=row, epoch=4, state="completed", stored=True, started_at=timezone.now()
    )
    Savepoint.objects.create(
        name="kept", topology="counts", state="complete", epoch=4, spec=row.deployed_spec, requested_by="ada"
    )
    topology_update(name="counts", spec=bounded_spec(), **BY)
    savepoint = "kept" if start == Start.SAVEPOINT else ""
    with pytest.raises(Conflict, match=r"version 2 cannot begin with a .*: its guarantee is bounded"):
        topology_deploy(name="counts", start=start, savepoint=savepoint, **BY)
    told = viewer.get(f"{API}continuation/", {"savepoint": savepoint} if savepoint else {}).json()
    assert (told["possible"], NO_CHECKPOINT in told["refusal"]) == (False, True)
    topology_deploy(name="counts", **BY)
    assert Topology.objects.get().status == "deploying"


# ---- the states of keys --------------------------------------------------------------------------


def test_what_the_driver_says_of_keys_is_kept_and_told(running: Topology, viewer: APIClient) -> None:
    follower = Follower()
    before = Event.objects.count()
    stored = say(keys={"node-1": KEYS, "node-2": NodeKeys()}).keys
    assert stored == {"node-1": structs.asdict(KEYS), "node-2": structs.asdict(NodeKeys())}
    assert Event.objects.count() == before + 1
    follower.check()
    assert viewer.get(API).json()["keys"] == stored
    say(keys={"node-1": KEYS, "node-2": NodeKeys()})
    assert Event.objects.count() == before + 1, "nothing is news"
    assert say(keys={"node-2": KEYS}).keys.keys() == {"node-2"}


def test_nothing_is_told_of_keys_where_the_guarantee_is_exact(topology: Topology, viewer: APIClient) -> None:
    topology_deploy(name="counts", **BY)
    say()
    assert viewer.get(API).json()["keys"] == {}


def test_nothing_is_left_of_them_when_it_stops(running: Topology) -> None:
    say(keys={"node-1": KEYS})
    topology_undeploy(name="counts", **BY)
    follower = Follower()
    topology_stopped(name="counts")
    assert Topology.objects.get().keys == {}
    follower.check()


def test_the_last_word_of_a_driver_that_stops_does_not_stay(running: Topology) -> None:
    topology_undeploy(name="counts", **BY)
    assert say("stopped", keys={"node-1": KEYS}).keys == {}


def test_they_stay_as_they_were_when_the_input_has_ended(running: Topology) -> None:
    assert say("completed", keys={"node-1": KEYS}).keys.keys() == {"node-1"}
    topology_undeploy(name="counts", **BY)
    assert Topology.objects.get().keys == {}


def test_they_begin_anew_with_a_deployment(running: Topology) -> None:
    say(keys={"node-1": KEYS})
    deploy_plan_create(topology=Topology.objects.get(), reason="")
    assert Topology.objects.get().keys == {}
