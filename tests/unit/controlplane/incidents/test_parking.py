"""Parking queries: what is recorded, shown and refused."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.errors import Conflict, Missing
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.parking import queries_park, queries_unpark
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.parking import topology_park, topology_unpark
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.telemetry import topology_metrics_apply
from domain.recovery.events import AbortAsked, Looked
from tests.browser.coordinating import Alone
from tests.unit.controlplane.incidents.places import now
from tests.unit.controlplane.specs import BY, epoch_report
from workers.operations import operation_run

CPU = 0.1


@pytest.fixture
def running(deployed: Topology) -> Topology:
    Partition.objects.update(cpu=CPU, state="running")
    deployed.queries.update(available=True, status="available")
    return deployed


def park(*queries: str) -> Incident:
    return queries_park(topology="counts", queries=queries, actor="ada", reason="input has doubled")


def unpark(*queries: str) -> Incident:
    return queries_unpark(topology="counts", queries=queries, actor="ada", reason="it is normal again")


def plan_now(incident: Incident) -> RecoveryPlan:
    incident_advance(number=incident.number, events=[Looked(at=now().timestamp())])
    plan = RecoveryPlan.objects.filter(incident=incident).order_by("-generation").first()
    assert plan is not None
    return plan


def query(name: str) -> Query:
    return next(row for row in Query.objects.select_related("partition") if row.partition.label == name)


def test_a_parked_query_is_shown_as_parked_once_it_has_stopped(running: Topology) -> None:
    incident = park("O1[0]")
    assert (incident.trigger, query("O1[0]").parked) == ("manual", True)
    assert query("O1[0]").status == "available"
    plan = plan_now(incident)
    assert "O1[0]" not in plan.assignment
    assert {"O0[0]", "O0[1]", "Parser[0]"} <= plan.assignment.keys()
    assert (query("O1[0]").status, query("O1[0]").available) == ("parked", False)
    assert query("O0[0]").status == "available"
    running.refresh_from_db()
    report = epoch_report(running, generation=plan.generation, state="degraded", absent=("O1[0]",))
    topology_metrics_apply(report=report, health={})
    assert query("O1[0]").status == "parked"


def test_it_returns(running: Topology) -> None:
    incident = park("O1[0]")
    plan_now(incident)
    assert unpark() == incident
    assert (query("O1[0]").parked, query("O1[0]").status) == (False, "failed")
    RecoveryPlan.objects.filter(incident=incident).update(state="applied")
    plan = plan_now(incident)
    assert plan.restore == ["O1[0]"]
    assert plan.assignment["O1[0]"]


def test_it_is_parked_and_returns_with_the_first_attempt(running: Topology) -> None:
    coordination: Any = Alone()
    for ask, queries in ((topology_park, ["O1[0]"]), (topology_unpark, [])):
        operation = ask(name="counts", queries=queries, **BY)
        operation_run(coordination, str(operation.pk))
        operation.refresh_from_db()
        assert (operation.state, operation.result) == ("succeeded", {"incident": 1})


def test_an_abort_unparks(running: Topology) -> None:
    incident = park("O1[0]")
    plan_now(incident)
    aborted = AbortAsked(at=now().timestamp(), actor="ada", reason="enough")
    incident_advance(number=incident.number, events=[aborted])
    assert not Query.objects.filter(parked=True).exists()
    assert query("O1[0]").status == "failed"


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        (("O0[0]", "O0[1]", "O1[0]"), "no query left that runs"),
        ((), "name at least one"),
    ],
)
def test_what_cannot_be_parked(running: Topology, queries: tuple[str, ...], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        park(*queries)
    assert not Incident.objects.exists()


def test_orders_that_change_nothing_are_refused(running: Topology) -> None:
    with pytest.raises(Conflict, match="has no query that is parked"):
        unpark()
    park("O1[0]")
    with pytest.raises(Conflict, match=r"O1\[0\] is parked already"):
        park("O1[0]")
    with pytest.raises(Conflict, match=r"O0\[0\] is not parked"):
        unpark("O0[0]")
    with pytest.raises(Missing, match=r"no query O7\[0\]"):
        park("O7[0]")
    with pytest.raises(Missing):
        topology_park(name="counts", queries=["O7[0]"], **BY)


def test_only_what_runs_can_be_parked(running: Topology) -> None:
    Topology.objects.update(status="recovering")
    with pytest.raises(Conflict, match="only queries that run"):
        topology_park(name="counts", queries=["O1[0]"], **BY)


def test_an_order_is_carried_out_at_its_first_attempt(running: Topology) -> None:
    """The first one ended with a `KeyError` behind the transaction, and the sweep made the second."""
    coordination: Any = Alone()
    for ask in (topology_park, topology_unpark):
        asked = ask(name="counts", queries=["O1[0]"], **BY)
        operation_run(coordination, str(asked.pk))
        asked.refresh_from_db()
        assert (asked.state, asked.result) == ("succeeded", {"incident": 1})
