"""What a report says: the parts of an exported incident, in the order of reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controlplane.incidents.report.curve import Curve, Mark, Point, curve_draw
from controlplane.topologies.choices import RecoveryMethod
from domain.recovery.wording import counted, duration, listed

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a table: when it was, how long after detection, and what."""

    at: str
    after: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class QueryLine:
    query: str
    priority: str
    chosen: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaveSection:
    title: str
    facts: list[tuple[str, str]]
    reason: str
    does: str
    partitions: list[tuple[str, str]]
    queries: list[QueryLine]


@dataclass(frozen=True, slots=True)
class Decision:
    at: str
    after: str
    who: str
    what: str
    change: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    number: int
    title: str
    exported: str
    summary: list[tuple[str, str]]
    curves: list[tuple[str, str, Curve | None]]
    timeline: list[Line]
    waves: list[WaveSection]
    verification: list[tuple[str, str]]
    decisions: list[Decision]
    policies: list[tuple[str, str]] = field(default_factory=list)


def report_of(document: Document) -> Report:
    """The report of an export; raises `KeyError` for what is none."""
    incident = document["incident"]
    detected = _moment(incident["detected_at"])

    def after(text: str | None) -> str:
        return "" if text is None else _after((_moment(text) - detected).total_seconds())

    return Report(
        number=incident["number"],
        title=f"Incident {incident['number']}: {_first_sentence(incident['reason'] or incident['trigger'])}",
        exported=f"Exported {_shown(document['exported_at'])} by {document['exported_by']} "
        f"({document['format']}, version {document['version']}).",
        summary=_summary(incident, detected),
        curves=[_curve(name, document, detected) for name in sorted(document["availability"])],
        timeline=[
            Line(_shown(entry["at"]), after(entry["at"]), entry["kind"], entry["text"])
            for entry in document["story"]
        ],
        waves=[_wave(plan, after) for plan in document["plans"]],
        verification=_verification(document, after),
        decisions=[
            Decision(
                at=_shown(entry["at"]),
                after=after(entry["at"]),
                who=f"{entry['actor']} ({entry['channel']})",
                what=f"{entry['action']} {entry['target']}",
                change=_change(entry["before"], entry["after"]),
                why=entry["reason"],
            )
            for entry in document["decisions"]
        ],
        policies=[
            (
                topology["name"],
                ", ".join(f"{name} {_value(value)}" for name, value in topology["policy"].items()),
            )
            for topology in document["topologies"]
        ],
    )


def _summary(incident: Mapping[str, Any], detected: datetime) -> list[tuple[str, str]]:
    failed = incident["summary"].get("failed_queries", {})
    queries = sum(len(labels) for labels in failed.values())

    def reached(name: str) -> str:
        at = incident[name]
        return f"{duration((_moment(at) - detected).total_seconds())} after detection" if at else "not yet"

    area = incident["availability_area"]
    return [
        ("State", f"{incident['state']}, {_method(incident['method'])}"),
        ("Detected", _shown(incident["detected_at"])),
        (
            "Closed",
            f"{_shown(incident['closed_at'])}, {reached('closed_at')}" if incident["closed_at"] else "-",
        ),
        ("Lost nodes", listed(incident["failed_nodes"]) or "none"),
        ("Topologies", listed(incident["topologies"]) or "none"),
        (
            "Failed queries",
            f"{queries}: " + "; ".join(f"{name}: {listed(labels)}" for name, labels in sorted(failed.items()))
            if queries
            else "none",
        ),
        ("First query available again", reached("first_query_at")),
        ("Half of them", reached("half_queries_at")),
        ("All of them", reached("all_queries_at")),
        (
            "Mean availability until then",
            "unknown" if area is None else f"{area:.1%}, queries weighed by priority",
        ),
        ("Replacements asked for", str(incident["wanted_nodes"])),
        (
            "Rolled back to",
            ", ".join(f"{name}: checkpoint {k}" for name, k in sorted(incident["checkpoints"].items()))
            or "-",
        ),
    ]


def _method(method: str) -> str:
    if method == RecoveryMethod.MOVE:
        return "partitions that run were moved"
    return f"recovered by the {method} method"


def _curve(name: str, document: Document, detected: datetime) -> tuple[str, str, Curve | None]:
    def second(text: str) -> float:
        return (_moment(text) - detected).total_seconds()

    samples = document["availability"][name]
    points = [Point(second(sample["at"]), sample["weighted"]) for sample in samples]
    marks = [
        Mark(second(plan["applied_at"]), f"wave {plan['wave']}" if plan["wave"] else "plan")
        for plan in document["plans"]
        if plan["topology"] == name and plan["applied_at"]
    ]
    curve = curve_draw(points, [Mark(0.0, "detected"), *marks])
    if curve is None:
        return name, f"{name}: no samples are left of that time (they are kept for a day).", None
    lowest = min(samples, key=lambda sample: sample["weighted"])
    said = (
        f"{name}: share of the queries' priorities that was available. At worst {lowest['weighted']:.0%} "
        f"({lowest['available']} of {lowest['total']} queries), {_after(second(lowest['at']))}."
    )
    return name, said, curve


def _place(plan: Mapping[str, Any], partition: str) -> str:
    """`on node-5`, or `from node-1 to node-5` where it moves."""
    node = plan["assignment"].get(partition, "-")
    before = plan["explanation"].get("moved_from", {}).get(partition)
    return f"from {before} to {node}" if before else f"on {node}"


def _wave(plan: Mapping[str, Any], after: Any) -> WaveSection:
    moves = plan["method"] == RecoveryMethod.MOVE
    facts = [("State", plan["state"])]
    if moves:
        facts += [("Method", "move: partitions keep their state, no query goes back to a checkpoint")]
    else:
        running = "rolls everything back" if plan["rollback"] else "leaves what runs"
        facts += [
            ("Method", f"{plan['method']}, {running}"),
            ("Starts from", f"checkpoint {plan['checkpoint']}"),
        ]
    moments = (
        ("planned", plan["created_at"]),
        ("published", plan["published_at"]),
        ("applied by the driver", plan["applied_at"]),
        ("caught up", plan["caught_up_at"]),
        ("verified", plan["verified_at"]),
    )
    facts += [(what.capitalize(), f"{_shown(at)}, {after(at)}") for what, at in moments if at]
    explained = plan["explanation"].get("explanations") or ()
    return WaveSection(
        title=f"{plan['topology']}, wave {plan['wave']} (plan {plan['generation']})",
        facts=facts,
        reason=plan["reason"],
        does="Moves" if moves else "Restores",
        partitions=[(partition, _place(plan, partition)) for partition in plan["restore"]],
        queries=[
            QueryLine(
                query=str(one.get("query", "")),
                priority=str(one.get("priority", "")),
                chosen="returns" if one.get("selected") else "stays down",
                reason=str(one.get("reason", "")),
            )
            for one in explained
            if isinstance(one, Mapping)
        ],
    )


def _verification(document: Document, after: Any) -> list[tuple[str, str]]:
    verified = [
        (plan["topology"], f"plan {plan['generation']} verified {_shown(plan['verified_at'])}, "
         f"{after(plan['verified_at'])}")
        for plan in document["plans"]
        if plan["verified_at"]
    ]  # fmt: skip
    if not verified:
        verified = [("-", "nothing is verified: no global checkpoint has completed after the last wave")]
    outcomes = [(after(e["at"]), e["text"]) for e in document["story"] if e["kind"] == "outcome"]
    complete = sum(checkpoint["state"] == "completed" for checkpoint in document["checkpoints"])
    counted_ones = counted(complete, "checkpoint")
    return [*verified, *outcomes, ("Checkpoints", f"{counted_ones} completed in the time of the incident")]


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Only what differs; specifications are told by their names."""
    names = [name for name in {**(before or {}), **(after or {})} if name != "spec"]
    changed = []
    for name in names:
        old, new = (before or {}).get(name), (after or {}).get(name)
        if old != new:
            changed.append(f"{name}: {_value(old)} → {_value(new)}" if before else f"{name}: {_value(new)}")
    return "; ".join(changed)


def _policy(policy: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in policy.items())


def _value(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _shown(text: str | None) -> str:
    return "-" if text is None else _moment(text).strftime("%Y-%m-%d %H:%M:%S UTC")


def _after(seconds: float) -> str:
    return f"{duration(abs(seconds))} {'after' if seconds >= 0 else 'before'} detection"
