"""What operators request is planned for, also where it is more than was measured."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from controlplane.errors import Conflict, Invalid
from controlplane.incidents.loading import deployments_load, plans_newest
from controlplane.incidents.models import RecoveryPlan
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import PLANNED_CPU, Partition, Topology
from controlplane.topologies.services import topology_create, topology_update
from controlplane.topologies.submission import specification_compose
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, spec_of


def requesting(cores: float, *operators: str) -> dict[str, Any]:
    spec = spec_of()
    for operator in spec["operators"]:
        if operator["name"] in (operators or ("O0", "O1")):
            operator["cpu_request"] = cores
    return spec


def deployed(cores: float) -> Topology:
    topology_create(spec=requesting(cores), **BY)
    topology_deploy(name="counts", **BY)
    return Topology.objects.get(name="counts")


def test_plans_count_the_larger_of_request_and_measurement(nodes: list[Node]) -> None:
    deployed(0.25)
    Partition.objects.filter(operator="O1").update(cpu=0.4)
    Partition.objects.filter(operator="Parser").update(cpu=0.1)
    costs = deployments_load(plans_newest())["counts"].costs
    assert costs == {"O0[0]": 25.0, "O0[1]": 25.0, "O1[0]": 40.0, "Parser[0]": 10.0, "Parser[1]": 10.0}
    in_rows = {row.label: row.planned_cpu for row in Partition.objects.all()}
    in_queries = {row.pk: row.planned for row in Partition.objects.annotate(planned=PLANNED_CPU)}
    assert in_queries == {row.pk: in_rows[row.label] for row in Partition.objects.all()}


def test_the_first_placement_keeps_to_requests(nodes: list[Node]) -> None:
    deployed(0.75)
    (plan,) = RecoveryPlan.objects.all()
    homes = [plan.assignment[label] for label in ("O0[0]", "O0[1]", "O1[0]")]
    assert len(set(homes)) == 3, "a node has room for 80 %"


def test_requests_that_no_node_has_room_for_are_refused(nodes: list[Node]) -> None:
    with pytest.raises(Conflict, match=r"no room for O0\[0\]"):
        deployed(0.9)


def test_an_update_changes_requests_and_clients_hear_of_it(nodes: list[Node]) -> None:
    topology_create(spec=requesting(0.25), **BY)
    follower = Follower()
    topology_update(name="counts", spec=requesting(0.5, "O1"), **BY)
    assert dict(Partition.objects.exclude(cpu_request=0).values_list("operator", "cpu_request")) == {
        "O1": 0.5
    }
    follower.check()
    assert follower.entities["partition"]["counts/O1[0]"]["cpu_request"] == 0.5


def test_a_node_shows_what_is_planned_on_it(nodes: list[Node], viewer: APIClient) -> None:
    topology = deployed(0.25)
    home = Partition.objects.get(topology=topology, operator="O1").node
    assert home is not None
    hosted = Partition.objects.filter(node=home, cpu_request__gt=0).count()
    assert viewer.get(f"/api/v1/nodes/{home.name}/").json()["planned_percent"] == pytest.approx(25.0 * hosted)


@pytest.mark.parametrize("cores", [-0.1, 64.5, "much"])
def test_other_requests_are_refused(nodes: list[Node], cores: object) -> None:
    with pytest.raises(Invalid, match="cpu_request"):
        topology_create(spec=requesting(cores), **BY)  # type: ignore[arg-type]


def test_a_request_for_all_queries_leaves_those_that_say_something() -> None:
    spec = requesting(0.5, "O0")
    given = specification_compose({"spec": spec, "cpu_request": 0.1})
    assert [one.get("cpu_request") for one in given["operators"]] == [None, None, 0.5, 0.1]
    assert "cpu_request" not in spec["operators"][3], "what was given is not changed"


def test_the_command_takes_it(nodes: list[Node]) -> None:
    with pytest.raises(CommandError, match="cpu_request"):
        call_command("deploy", "hashtags", "--cpu-request", "65")
    call_command("deploy", "hashtags", "--cpu-request", "0.05", verbosity=0)
    assert set(Partition.objects.filter(query__isnull=False).values_list("cpu_request", flat=True)) == {0.05}
    assert set(Partition.objects.filter(query__isnull=True).values_list("cpu_request", flat=True)) == {0.0}
