"""Facts of incidents as they are stored: read back, refused when damaged, migrated from what was before."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from controlplane.events.choices import OperationKind
from controlplane.incidents.actions import incident_order
from controlplane.incidents.loading import entries_load, machine_load
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.incidents.selectors import entry_list, incident_get
from controlplane.incidents.services import incident_advance, recover_now
from controlplane.lifecycle.nodes import node_register, nodes_lost
from controlplane.topologies.models import Topology
from domain.recovery import facts
from domain.recovery.events import Looked
from domain.recovery.memory import Memory
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.incidents.places import driver, newest, registration

BEFORE, AFTER = ("incidents", "0003_incremental_recovery"), ("incidents", "0004_typed_facts")
NEWEST = ("incidents", "0014_divided")
"""What is read with the models of today."""
TOLD = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)

OLD = json.loads((Path(__file__).parent / "old_facts.json").read_text(encoding="utf-8"))
"""`entries`: what version 0003 stored with the story of an incident. `memory`: what it recalled from them."""

FIRST_VERSION: list[dict[str, Any]] = [
    {"fact": "lost", "nodes": ["node-1"], "failed": {"t0": {"generation": 1, "partitions": ["A[0]"]}}},
    {"fact": "asked", "topology": "t0", "forced": True, "generation": 2},
    {"fact": "unrestored", "topology": "t0", "generation": 2, "partitions": ["A[0]"]},
]
"""Facts with the fields that the first version of the machine stored."""


def incident_new(number: int = 1) -> Incident:
    return Incident.objects.create(number=number, detected_at=timezone.now(), opened_at=timezone.now())


def entries_new(incident: Incident, rows: Iterable[dict[str, Any]], model: Any = IncidentEntry) -> None:
    model.objects.bulk_create(
        model(incident_id=incident.pk, at=TOLD, kind="step", text="told", data=data) for data in rows
    )


def entries_stored() -> list[dict[str, Any]]:
    return [*IncidentEntry.objects.order_by("id").values_list("data", flat=True)]


def plain(value: Any) -> Any:
    """The value as JSON, with sorted sets."""
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


@pytest.fixture
def migrating() -> Iterator[Callable[[tuple[str, str]], Any]]:
    """Brings the database to the state after a migration, and returns the entries' model of that state."""

    def migrate(target: tuple[str, str]) -> Any:
        executor = MigrationExecutor(connection)
        executor.migrate([target])
        return executor.loader.project_state([target]).apps.get_model("incidents", "IncidentEntry")

    yield migrate
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.django_db(transaction=True)
def test_facts_of_the_version_before_are_migrated(migrating: Callable[[tuple[str, str]], Any]) -> None:
    incident = incident_new()
    entries_new(incident, OLD["entries"], migrating(BEFORE))
    migrating(NEWEST)
    recalled = machine_load(incident, may_plan=False).memory
    now = {field.name: plain(getattr(recalled, field.name)) for field in dataclasses.fields(Memory)}
    later = {"refused", "moves", "parked", "parked_by_policy", "parked_most", "overloads", "limits", "spread"}
    later |= {"tentative", "joined_since"}
    assert now.pop("room_made") is None
    assert [now.pop(name) for name in sorted(later)] == [{}] * len(later), "0003 knew no such facts"
    before = dict(OLD["memory"])
    before["rollback_pending"] = before.pop("owed")
    del before["returned"]  # nothing reads it any more
    before["proposals"] = {name: list(one) for name, one in before["proposals"].items()}
    assert not any(recalled.avoids(node, 0.0) for node in now["avoided"]), "an operator asked to recover"
    now["avoided"] = sorted(now["avoided"])
    now["proposals"] = {name: [one.generation, one.proposal] for name, one in recalled.proposals.items()}
    assert now == before
    kinds = {data["fact"] for data in OLD["entries"] if "fact" in data}
    known = {kind.__struct_config__.tag for kind in get_args(facts.Fact)}
    assert kinds == known - {
        "refused",
        "rebalancing",
        "parked",
        "spread",
        "accepted",
        "taken_over",
        "tentative",
        "room_made",
    }, "every kind of that version is tried"
    stored = entries_stored()
    read = [facts.DECODER.decode(json.dumps(data)) for data in stored if "fact" in data]
    assert [facts.fact_write(fact) for fact in read] == [data for data in stored if "fact" in data]
    assert stored[-1] == OLD["entries"][-1], "the outline of a plan stays as it was"

    migrating(BEFORE)
    assert entries_stored() == [
        {"avoid": [], **data} if data.get("fact") == "lost" else data for data in OLD["entries"]
    ]


@pytest.mark.django_db(transaction=True)
def test_facts_of_the_first_version_are_filled_in(migrating: Callable[[tuple[str, str]], Any]) -> None:
    incident = incident_new()
    entries_new(incident, FIRST_VERSION, migrating(BEFORE))
    migrating(AFTER)
    lost, asked, unrestored = facts.facts_read(1, [(e.pk, e.fact) for e in entries_load(incident)])
    assert lost == facts.Lost(TOLD.timestamp(), ("node-1",), {"t0": facts.Failed(1, ("A[0]",))})
    assert asked == facts.RecoveryRequested("t0", 2, forced=True)
    assert unrestored == facts.Unrestored("t0", 2, ("A[0]",), forced=False, rollback_pending=False)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        ({"fact": "unheard of"}, "Invalid value 'unheard of'"),
        ({"fact": "arrived"}, "missing required field `node`"),
        ({"fact": "applied", "topology": "t0", "generation": "3"}, "Expected `int`, got `str`"),
        ({"fact": "arrived", "node": "node-1", "rack": "r"}, "unknown field `rack`"),
    ],
)
def test_a_damaged_fact_names_its_incident(damaged: dict[str, Any], problem: str) -> None:
    incident = incident_new(number=17)
    entries_new(incident, [{"fact": "arrived", "node": "node-9"}, {}, damaged])
    entry = IncidentEntry.objects.latest("id").pk
    with pytest.raises(facts.UnreadableFactError, match=problem) as caught:
        machine_load(incident, may_plan=False)
    assert f"incident 17 cannot go on: the fact stored with entry {entry} of its story" in str(caught.value)


def incident_damaged() -> Incident:
    """Two of three nodes are lost; a plan waits for its driver; what was lost cannot be read any more."""
    incident = nodes_lost(evidence=dict.fromkeys(("node-1", "node-2"), "gone"), at=timezone.now())
    assert incident is not None
    for name in ("node-5", "node-6"):
        node_register(registration=registration(name), at=timezone.now())
    at = timezone.now().timestamp()
    incident_advance(number=incident.number, events=[*driver(1, "degraded", 20), Looked(at=at)])
    assert newest().state == "planned"
    IncidentEntry.objects.filter(data__fact="lost").update(data={"fact": "lost", "nodes": 3})
    return incident


@pytest.mark.django_db
def test_an_incident_with_a_damaged_fact_can_be_aborted(deployed: Topology) -> None:
    number = incident_damaged().number
    follower = Follower()
    for kind in (OperationKind.INCIDENT_PAUSE, OperationKind.INCIDENT_REPLAN):
        with pytest.raises(facts.UnreadableFactError, match="Abort it, then recover"):
            incident_order(kind=kind, number=number, actor="kim", reason="stuck")
    incident_order(kind=OperationKind.INCIDENT_ABORT, number=number, actor="kim", reason="stuck")
    assert incident_get(number).state == "aborted"
    assert newest().state == "superseded"
    assert any("kim aborted the recovery: stuck" in entry.text for entry in entry_list(number))
    again = recover_now(topology="counts", actor="kim", reason="all of it")
    assert again.number == number + 1
    at = timezone.now().timestamp()
    incident_advance(number=again.number, events=[*driver(1, "degraded", 20), Looked(at=at)])
    assert (newest().incident_id, newest().state) == (again.pk, "planned")
    follower.check()


@pytest.mark.django_db
def test_the_story_of_a_machine_is_that_of_its_incident() -> None:
    incident = incident_new()
    entries_new(incident, [{}, {"fact": "paused", "actor": "kim", "reason": "wait"}, {"planner": "optimal"}])
    machine = machine_load(incident, may_plan=False)
    assert machine.memory.paused
    assert machine.story == [(TOLD.timestamp(), "step", "told")] * 3
