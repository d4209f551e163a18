"""Overload: queries are parked by policy and return by themselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controlplane.errors import Conflict
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.overload import parking_by_policy
from controlplane.incidents.parking import queries_park, queries_unpark
from controlplane.incidents.services import incident_advance, incident_open_or_grow
from controlplane.topologies.models import Partition, Query, Topology
from domain.recovery.events import Looked, NodesLost, PauseAsked, ResumeAsked
from domain.recovery.facts import CaughtUp, fact_write
from domain.recovery.overload import HOLD, SURGE
from tests.unit.controlplane.incidents.places import now

CPU = 0.1


@pytest.fixture
def running(deployed: Topology) -> Topology:
    Partition.objects.update(cpu=CPU, state="running")
    Partition.objects.filter(operator__in=("Source", "Parser")).update(cpu=CPU / 10)
    Partition.objects.filter(operator="O1").update(cpu=2 * CPU)
    deployed.queries.update(available=True, status="available", priority=5)
    Query.objects.filter(partition__operator="O1").update(priority=1)
    Topology.objects.update(status="running")
    deployed.plans.update(state="applied", applied_at=now() - timedelta(minutes=2))
    return deployed


def measured(load: float | None, *, lag: float = 0.0, overloaded: float | None = None) -> None:
    """overloaded: for so many seconds."""
    since = None if overloaded is None else now() - timedelta(seconds=overloaded)
    Topology.objects.update(load=load, lag=lag, overloaded_since=since)


def plan_now(incident: Incident) -> RecoveryPlan:
    incident_advance(number=incident.number, events=[Looked(at=now().timestamp())])
    plan = RecoveryPlan.objects.filter(incident=incident).order_by("-generation").first()
    assert plan is not None
    return plan


def applied(incident: Incident, *, ago: float) -> None:
    """The newest plan, so many seconds ago."""
    plan = plan_now(incident)
    RecoveryPlan.objects.filter(pk=plan.pk).update(
        state="applied", applied_at=now() - timedelta(seconds=ago), caught_up_at=now()
    )


def parked() -> set[str]:
    return {row.partition.label for row in Query.objects.filter(parked=True).select_related("partition")}


def story(incident: Incident) -> str:
    return "\n".join(incident.entries.values_list("text", flat=True))


def test_the_least_valuable_query_is_parked(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    assert (incident.trigger, parked()) == ("overload", {"O1[0]"})
    assert (
        "counts: input arrives faster than it is processed: each second of input takes 1.30 s of work, and "
        "6.5 s of input wait. O1[0] stops." in story(incident)
    )
    plan = plan_now(incident)
    assert "O1[0]" not in plan.assignment
    assert plan.restore == []


def on_one_node(topology: Topology) -> None:
    plan = topology.plans.get()
    plan.assignment = dict.fromkeys(plan.assignment, "node-1")
    plan.save()


def test_partitions_move_where_that_is_enough(running: Topology) -> None:
    on_one_node(running)
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    assert (incident.trigger, parked()) == ("overload", set())
    assert "input arrives faster than it is processed, while other nodes have room" in story(incident)
    plan = plan_now(incident)
    assert plan.kind == "move"
    assert len(set(plan.assignment.values())) > 1


@pytest.mark.parametrize(("rebalancing", "load"), [("manual", 1.3), ("automatic", 13.0)])
def test_queries_are_parked_where_nothing_may_move_or_moves_are_not_enough(
    running: Topology, rebalancing: str, load: float
) -> None:
    on_one_node(running)
    Topology.objects.update(rebalancing=rebalancing)
    measured(load, lag=6.5, overloaded=8.0)
    assert parking_by_policy()
    assert parked()


@pytest.mark.parametrize(
    ("load", "overloaded"), [(1.3, 2.0), (1.3, None), (None, 20.0)], ids=["not long", "not", "not known"]
)
def test_nothing_is_parked_where_that_may_pass(
    running: Topology, load: float | None, overloaded: float | None
) -> None:
    measured(load, lag=3.0, overloaded=overloaded)
    assert parking_by_policy() == []
    assert not Incident.objects.exists()


def test_nothing_is_parked_where_the_policy_says_so(running: Topology) -> None:
    measured(1.3, lag=3.0, overloaded=20.0)
    Topology.objects.update(overload="manual")
    assert parking_by_policy() == []


def test_nothing_is_parked_where_it_is_switched_off(running: Topology, settings: Any) -> None:
    measured(1.3, lag=3.0, overloaded=20.0)
    settings.RESURGE = replace(settings.RESURGE, overload_after=0.0)
    assert parking_by_policy() == []


def test_nothing_is_parked_while_a_recovery_is_under_way(running: Topology) -> None:
    measured(1.3, lag=3.0, overloaded=20.0)
    lost = NodesLost(at=now().timestamp(), nodes={"node-2": "killed"})
    incident_open_or_grow(events=[lost], at=now())
    assert parking_by_policy() == []


@pytest.mark.parametrize(("state", "moves"), [("replaying", False), ("catching_up", True)])
def test_partitions_move_only_once_all_is_restored(running: Topology, state: str, *, moves: bool) -> None:
    on_one_node(running)
    measured(1.3, lag=6.5, overloaded=8.0)
    incident = Incident.objects.create(number=1, state=state, detected_at=now(), opened_at=now())
    parking_by_policy()
    assert ("while other nodes have room" in story(incident)) is moves


def test_what_an_operator_parks_as_well_does_not_return_by_itself(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=HOLD + SURGE)
    Topology.objects.update(status="degraded")
    queries_park(topology="counts", queries=["O1[0]"], actor="ada", reason="not today")
    assert "ada wants O1[0] of counts parked: not today. It stays so until unparked." in story(incident)
    with pytest.raises(Conflict, match="is parked already"):
        queries_park(topology="counts", queries=["O1[0]"], actor="ada", reason="not today")
    measured(0.4)
    parking_by_policy()
    assert parked() == {"O1[0]"}
    queries_unpark(topology="counts", queries=["O1[0]"], actor="ada", reason="now")
    assert parked() == set()


def test_it_returns_when_there_is_time_for_it(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=HOLD - 5.0)
    measured(0.4)
    assert parking_by_policy() == [], "it has not been parked for long"
    RecoveryPlan.objects.filter(incident=incident).update(applied_at=now() - timedelta(seconds=HOLD + 1.0))
    assert parking_by_policy() == [incident]
    assert parked() == set()
    assert "counts: each second of input takes 0.40 s of work now. O1[0] returns when there is room." in (
        story(incident)
    )
    assert plan_now(incident).restore == ["O1[0]"]


def test_nothing_returns_while_the_incident_is_paused(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=HOLD + 5.0)
    measured(0.4)
    asked: dict[str, Any] = {"at": now().timestamp(), "actor": "ada", "reason": "a look"}
    incident_advance(number=incident.number, events=[PauseAsked(**asked)])
    assert parking_by_policy() == []
    assert parked() == {"O1[0]"}
    incident_advance(number=incident.number, events=[ResumeAsked(**asked)])
    assert parking_by_policy()
    assert parked() == set()


def test_it_stays_parked_while_it_would_be_too_much(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=HOLD + 1.0)
    measured(0.89)
    assert parking_by_policy() == [incident], "only the busiest nodes keep their limits"
    assert "0.89 s of work, too much for more where most is done" in story(incident)
    assert parking_by_policy() == []
    assert parked() == {"O1[0]"}


@pytest.mark.parametrize(
    ("usual", "ago", "returns"),
    [(None, 30.0, True), (0.5, 30.0, False), (0.88, 30.0, True), (0.5, SURGE + 1.0, True)],
    ids=["not known", "a surge goes on", "as usual", "no surge"],
)
def test_it_does_not_return_in_a_surge(
    running: Topology, *, usual: float | None, ago: float, returns: bool
) -> None:
    """With it the load would be between 0.8 and 0.9."""
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=ago)
    measured(0.47)
    Topology.objects.update(usual_load=usual)
    parking_by_policy()
    assert parked() == (set() if returns else {"O1[0]"})
    assert ("for 5 minutes queries return only up to 0.80 s" in story(incident)) is not returns


@pytest.mark.parametrize(("ago", "changed"), [(30.0, False), (SURGE + 1.0, True)])
def test_nothing_changes_in_a_surge_that_goes_on(running: Topology, *, ago: float, changed: bool) -> None:
    """Not even the limits of nodes: what may take more would get what is parked."""
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=ago)
    measured(0.89)
    Topology.objects.update(usual_load=0.5)
    assert bool(parking_by_policy()) is changed


@pytest.mark.parametrize(("load", "falls", "returns"), [(0.6, True, 0), (0.6, False, 1), (0.2, True, 2)])
def test_none_returns_alone_while_there_is_ever_more_time(
    running: Topology, *, load: float, falls: bool, returns: int
) -> None:
    measured(4.0, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    stopped = len(parked())
    applied(incident, ago=SURGE + 1.0)
    measured(load)
    Topology.objects.update(load_falls=falls)
    parking_by_policy()
    assert len(parked()) == stopped - returns


def test_what_was_usual_says_nothing_where_nodes_were_lost(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=30.0)
    Incident.objects.update(trigger="detected")
    measured(0.47)
    Topology.objects.update(usual_load=0.5)
    parking_by_policy()
    assert parked() == set()


def test_more_is_parked_where_that_was_not_enough(running: Topology) -> None:
    measured(1.05, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=1.0)
    measured(1.4, lag=8.0, overloaded=6.0)
    assert parking_by_policy() == [incident]
    assert len(parked()) > 1
    assert len(parked()) < running.queries.count(), "one query goes on"


def test_what_an_operator_parked_stays_parked(running: Topology) -> None:
    incident = queries_park(topology="counts", queries=["O0[0]"], actor="ada", reason="not needed today")
    applied(incident, ago=60.0)
    measured(1.3, lag=6.5, overloaded=8.0)
    parking_by_policy()
    applied(incident, ago=HOLD + 1.0)
    measured(0.1)
    parking_by_policy()
    assert parked() == {"O0[0]"}


def test_what_came_back_too_early_stays_parked_longer(running: Topology) -> None:
    measured(1.3, lag=6.5, overloaded=8.0)
    [incident] = parking_by_policy()
    applied(incident, ago=60.0)
    queries_unpark(topology="counts", queries=[], actor="ada", reason="try again")
    applied(incident, ago=60.0)
    generation = running.plans.order_by("-generation").first().generation
    incident.entries.create(
        at=now(), kind="step", text="caught up", data=fact_write(CaughtUp("counts", generation))
    )
    measured(1.3, lag=6.5, overloaded=8.0)
    assert parking_by_policy() == [incident]
    applied(incident, ago=HOLD + 1.0)
    measured(0.1)
    assert parking_by_policy() == []
    RecoveryPlan.objects.filter(incident=incident).update(applied_at=now() - timedelta(seconds=2 * HOLD + 1))
    assert parking_by_policy() == [incident]
