"""The export of an incident that was recovered in waves: the document and its reports."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from rest_framework.test import APIClient

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.report.curve import MOST_POINTS, Mark, Point, curve_draw
from controlplane.incidents.report.html import report_html
from controlplane.incidents.report.markdown import report_markdown
from controlplane.topologies.models import AvailabilitySample, Topology
from tests.browser.seeding import seed

EXPORT = "/api/v1/incidents/2/export/"
EVIL = "</style><script>alert(1)</script> | `x` & *y*"


@pytest.fixture(scope="module")
def seeded(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The rows that the tests of this file begin with; seeding takes seconds."""
    with django_db_blocker.unblock(), transaction.atomic():
        seed("recovered")
        yield
        transaction.set_rollback(True)


@pytest.fixture
def recovered(seeded: None, db: None) -> Incident:
    incident = Incident.objects.get(number=2)
    during = incident.detected_at + (incident.closed_at - incident.detected_at) / 2
    for target, action, at in (
        ("hashtags", "topology.policy", during),
        ("2", "incident.replan", during),
        ("hashtags", "topology.policy", incident.detected_at.replace(year=2020)),
        ("other", "topology.policy", during),
        ("3", "incident.replan", during),
    ):
        row = audit_record(
            actor="kim",
            channel=Channel.PAGE,
            action=action,
            target=target,
            before={"planner": "optimal", "method": "auto"},
            after={"planner": "best_density", "method": "auto"},
            reason=EVIL,
        )
        row.at = at
        row.save(update_fields=["at"])
    return incident


def test_the_document_is_complete_and_explains_itself(viewer: APIClient, recovered: Incident) -> None:
    answer = viewer.get(EXPORT)
    assert answer["Content-Disposition"] == 'attachment; filename="incident-2.json"'
    document = answer.json()
    assert (document["format"], document["version"]) == ("resurge.incident", 1)
    assert set(document) <= {*document["about"], "format", "version", "about", "exported_at", "exported_by"}
    assert document["exported_by"] == "viewer"
    assert document["incident"]["failed_nodes"] == ["node-2", "node-4", "node-6", "node-8"]
    assert len(document["story"]) == IncidentEntry.objects.filter(incident=recovered).count()
    assert [plan["wave"] for plan in document["plans"]] == [1, 2, 3, 4]
    assert document["plans"][0]["explanation"]["explanations"][0]["reason"]
    assert [row["name"] for row in document["topologies"]] == ["hashtags"]
    assert document["topologies"][0]["priorities"]["O4[0]"] == 9
    assert {"node-1", "node-2", "node-12"} <= {node["name"] for node in document["nodes"]}
    assert len(document["node_requests"]) == 4
    assert all("session" not in node for node in document["nodes"])
    assert document["installation"]["theta"] == settings.RESURGE.theta
    assert len(document["events"]) > 10
    curve = document["availability"]["hashtags"]
    assert curve[0]["at"] < document["incident"]["detected_at"] < curve[-1]["at"]
    assert min(sample["available"] for sample in curve) == 0
    decisions = [(row["action"], row["target"]) for row in document["decisions"]]
    assert decisions == [("topology.policy", "hashtags"), ("incident.replan", "2")]


def test_it_has_the_checkpoints_that_its_plans_went_back_to(viewer: APIClient, recovered: Incident) -> None:
    hashtags = Topology.objects.get(name="hashtags")
    other = Topology.objects.exclude(name="hashtags").first() or Topology.objects.create(name="other")
    before = recovered.detected_at - timedelta(hours=1)
    for topology, epoch in ((hashtags, 7), (hashtags, 8), (hashtags, 9), (other, 7), (other, 9_000)):
        Checkpoint.objects.create(
            topology=topology,
            epoch=epoch,
            generation=1,
            state="completed",
            started_at=before,
            ended_at=before,
        )
    recovered.topologies.add(other)
    recovered.checkpoints = {"hashtags": 8, other.name: 9_000}
    recovered.save(update_fields=["checkpoints"])
    first, *_, last = RecoveryPlan.objects.filter(incident=recovered).order_by("generation")
    RecoveryPlan.objects.filter(pk=first.pk).update(checkpoint=7)
    RecoveryPlan.objects.filter(pk=last.pk).update(checkpoint=9, kind="move")
    rows = viewer.get(EXPORT).json()["checkpoints"]
    old = [(row["topology"], row["epoch"]) for row in rows if row["epoch"] in (7, 8, 9, 9_000)]
    assert sorted(old) == sorted([("hashtags", 7), ("hashtags", 8), (other.name, 9_000)])


def test_samples_look_as_the_topology_shows_them(viewer: APIClient, recovered: Incident) -> None:
    """In the export the database writes the times."""
    topology = Topology.objects.get(name="hashtags")
    on_the_second = recovered.detected_at.replace(microsecond=0)
    AvailabilitySample.objects.create(
        topology=topology, at=on_the_second, available=3, total=15, weighted=0.1
    )
    exported = viewer.get(EXPORT).json()["availability"]["hashtags"]
    shown = viewer.get("/api/v1/topologies/hashtags/availability/?limit=1000").json()["results"]
    assert len(exported) > 3
    assert [sample for sample in exported if "." not in sample["at"]]
    assert [sample for sample in shown if sample in exported] == exported


class Checker(HTMLParser):
    """Every tag is closed; scripts, foreign addresses and inline styles are collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.suspicious: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in {"meta", "br"}:
            self.open.append(tag)
        self.suspicious += [
            f"{name}={value}"
            for name, value in attrs
            if name in {"style", "src", "href"} or name.startswith("on")
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_stands_alone_and_escapes(viewer: APIClient, recovered: Incident) -> None:
    answer = viewer.get(f"{EXPORT}?format=html")
    assert answer["Content-Type"].startswith("text/html")
    assert answer["Content-Disposition"] == 'inline; filename="incident-2.html"'
    page = answer.content.decode()
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.suspicious == []
    assert "svg" in checker.seen
    assert "script" not in checker.seen
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    for said in (
        "Lost node-2, node-4, node-6 and node-8",
        "wave 4 (plan 8)",
        "costs nothing more, because queries before it need the same partitions",
        "checkpoint 5350 is complete on all partitions",
        "planner: optimal → best_density",
        "kim (page)",
        "18.4 s after detection",
    ):
        assert said in page, said
    assert "method: auto" not in page, "only what changed"


def test_the_report_as_markdown(viewer: APIClient, recovered: Incident) -> None:
    answer = viewer.get(EXPORT, headers={"Accept": "text/markdown"})
    assert answer["Content-Type"].startswith("text/markdown")
    text = answer.content.decode()
    assert text.startswith("# Incident 2: ")
    sections = ["Summary", "Availability", "Timeline", "Waves", "Verification", "Who decided what, and why"]
    assert re.findall(r"^## (.*)$", text, re.M)[:6] == sections
    assert r"\</style\>\<script\>" in text
    assert r"\| \`x\` & \*y\*" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 5, 6), line


def test_a_report_can_be_made_of_the_file(viewer: APIClient, recovered: Incident) -> None:
    document = json.loads(viewer.get(EXPORT).content)
    assert report_html(document).count("<h3>") == 4
    assert report_markdown(document).count("### ") == 4


def test_a_report_of_moves_restores_nothing(viewer: APIClient, recovered: Incident) -> None:
    document = json.loads(viewer.get(EXPORT).content)
    document["incident"]["method"] = "move"
    for plan in document["plans"]:
        plan["method"] = "move"
        plan["explanation"] = {"moved_from": dict.fromkeys(plan["restore"], "node-99")}
    for text in (report_markdown(document), report_html(document)):
        assert "partitions that run were moved" in text
        assert "from node-99 to node-" in text
        assert "Restores" not in text
        assert "Starts from" not in text


def test_a_curve_shows_every_change_and_no_more() -> None:
    points = [Point(at, 1.0 if at < 100 or at > 300 else 0.25) for at in range(-60, 400)]
    curve = curve_draw(points, [Mark(0, "detected"), Mark(5000, "far away")])
    assert curve is not None
    assert curve.line.count("V") == 3
    assert [mark.text for mark in curve.marks] == ["detected"]
    assert "1 min" in [tick.text for tick in curve.across]
    restless = curve_draw([Point(at, at % 2) for at in range(50_000)], [])
    assert restless is not None
    assert restless.line.count("V") <= MOST_POINTS + 1
    assert curve_draw([Point(0, 1.0)], []) is None
    assert curve_draw([Point(0, 1.0), Point(0, 0.5)], []) is not None
