"""The words for health: each case, and 10,000 random sequences of facts in which no two of them disagree."""

from __future__ import annotations

import random

import pytest

from domain.health import (
    Health,
    IncidentFacts,
    Limits,
    QueryFacts,
    catch_up_words,
    incident_health,
    node_health,
    queries_count,
    query_health,
    topology_health,
)

LIMITS = Limits(back=1.2, lost=1.5)
TOPOLOGY = (
    "draft",
    "deploying",
    "running",
    "degraded",
    "recovering",
    "paused",
    "completed",
    "failed",
    "stopped",
)
QUERY = ("starting", "available", "failed", "recovering", "parked")
INCIDENT = ("open", "acquiring", "restoring", "replaying", "verifying", "catching_up", "closed", "aborted")


def query(status: str = "available", relative: float | None = 1.0, *, incident: bool = False) -> Health:
    facts = QueryFacts(
        topology="running",
        status=status,
        available=status == "available",
        relative=relative,
        incident=incident,
    )
    return query_health(facts, LIMITS)


def test_the_number_shown_is_the_one_that_is_judged() -> None:
    assert (query(relative=2.67).limit, query(relative=2.67).word) == (None, "Available")
    assert query(relative=1.4, incident=True).limit == 1.5
    # Measured in peace: no limit has judged it, so none is shown beside it.
    unjudged = query(relative=2.67, incident=True)
    assert (unjudged.limit, unjudged.note) == (None, "not judged in this incident yet")
    lost = query("recovering", 2.67, incident=True)
    assert (lost.value, lost.limit) == (2.67, 1.2)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (IncidentFacts(state="acquiring", wanted=2, here=1), "Acquiring nodes"),
        (IncidentFacts(state="acquiring", wanted=2, here=2), "Waiting for room"),
        (IncidentFacts(state="acquiring", wanted=2, here=2, proposed=1), "Waits for approval"),
        (IncidentFacts(state="replaying", proposed=1, paused=True), "Replaying, waits for approval, paused"),
        (IncidentFacts(state="catching_up", failed=15), "Restored, catching up"),
        (IncidentFacts(state="closed", failed=15, returned=15), "Recovered"),
        (IncidentFacts(state="closed", failed=15), "Closed, 0 of 15 back"),
        (IncidentFacts(state="closed", moves=True), "Moved"),
        (IncidentFacts(state="aborted", failed=3, returned=3), "Aborted"),
    ],
)
def test_incidents(facts: IncidentFacts, word: str) -> None:
    assert incident_health(facts).word == word


def test_a_published_plan_says_what_it_waits_for() -> None:
    note = incident_health(IncidentFacts(state="restoring", unapplied=[("counts", 5)])).note
    assert (
        note == "plan 5 of counts is published; the driver applies a plan when the job that it runs has ended"
    )


def test_estimates() -> None:
    assert catch_up_words(None) == ""
    assert catch_up_words(40.2) == "available in about 40 s"
    assert catch_up_words(86_400.0).startswith("does not catch up")
    facts = IncidentFacts(state="catching_up", failed=3, returned=1, catch_up=40)
    assert incident_health(facts).note == "1 of 3 failed queries back; the rest available in about 40 s"


def test_nodes() -> None:
    assert node_health(state="lost", awaited=True).word == "Lost"
    assert node_health(state="lost", awaited=False).state == "replaced"


def test_random_sequences_of_facts() -> None:
    for seed in range(10_000):
        chance = random.Random(seed)
        rows = [[chance.choice(QUERY), chance.choice((None, 0.9, 1.2, 1.4, 2.67))] for _ in range(3)]
        topology, incident, returned = "deploying", "closed", 3
        for _ in range(6):
            match chance.randrange(4):
                case 0:
                    topology = chance.choice(TOPOLOGY)
                case 1:
                    incident, returned = chance.choice(INCIDENT), chance.randint(0, 3)
                case _:
                    rows[chance.randrange(3)] = [chance.choice(QUERY), chance.choice((None, 0.9, 1.4, 2.67))]
            compare(topology, rows, incident, returned)


def compare(topology: str, rows: list[list[str | float | None]], incident: str, returned: int) -> None:
    opened = incident not in ("closed", "aborted")
    queries = [
        query_health(
            QueryFacts(
                topology=topology,
                status=str(status),
                available=status == "available",
                relative=relative if isinstance(relative, float) else None,
                incident=opened,
            ),
            LIMITS,
        )
        for status, relative in rows
    ]
    counts = queries_count(queries)
    whole = topology_health(status=topology, queries=counts)
    told = incident_health(IncidentFacts(state=incident, failed=3, returned=returned))
    states = [one.state for one in queries]
    if whole.limit is None:
        assert not {"available", "failed", "recovering"} & {*states}, (whole, queries)
    else:
        assert (whole.value, whole.limit) == (states.count("available"), 3)
    if whole.state == "running":
        assert {*states} <= {"available", "parked"}, (whole, queries)
    for one in queries:
        assert one.tone != "good" or one.state == "available"
        if one.limit is not None and one.value is not None and one.state == "available":
            assert one.value <= one.limit
    assert (told.word == "Recovered") == (incident == "closed" and returned == 3)
