"""What the benchmark of output after a kill reports and demands, and where the time went. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.recovery.course import percentile, unix
from benchmarks.runner import Criterion, Report, at_least, at_most

NODES = 5
ASKED_FOR = 30
"""Kills of each kind."""
BOUNDS: Mapping[int, tuple[float, float | None]] = {3: (2.5, 4.0), 1: (2.0, None)}
"""Nodes killed -> bounds of the median and of the 95th percentile, seconds."""
GONE = "executors are gone"
EVENTS: Mapping[str, str] = {
    GONE: "executors gone",
    "job ended early": "job ended early",
    "partitions absent": "tasks pinned without them",
    "plan adopted": "plan adopted",
}
"""Events in the driver's log -> what a timeline calls them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the driver's log."""

    at: float
    event: str


def lines_of(text: str, events: Iterable[str], after: float) -> list[Line]:
    """Lines of these events that were logged after a moment."""
    found = []
    for line in text.splitlines():
        for event in events:
            if f"event='{event}'" in line and line.startswith("timestamp="):
                at = unix(line.split("'", 2)[1])
                if at > after:
                    found.append(Line(at, event))
    return found


def stages_of(
    killed_at: float,
    *,
    losses: Sequence[float],
    plans: Sequence[Mapping[str, Any]],
    lines: Sequence[Line],
    outputs: Mapping[str, float],
) -> dict[str, float]:
    """Seconds since the kill of what happened on the way to output, in the order of time. Only the last plan
    that was published before all gave output counts."""
    ended = max(outputs.values())
    published = sorted(
        (unix(plan["published_at"]), unix(plan["created_at"]))
        for plan in plans
        if plan["published_at"] and unix(plan["published_at"]) < ended
    )
    found = {"first output": min(outputs.values()), "output of all": ended}
    if losses:
        found["loss recorded"] = max(losses)
    if published:
        found["plan published"], found["plan recorded"] = published[-1]
    for event, name in EVENTS.items():
        if times := [line.at for line in lines if line.event == event and line.at < ended]:
            # Executors are reported one by one, and what else comes again belongs to a later plan.
            found[name] = max(times) if event == GONE else min(times)
    since = {name: round(at - killed_at, 3) for name, at in found.items()}
    return dict(sorted(since.items(), key=lambda item: item[1]))


def report_of(rows: Sequence[Mapping[str, Any]], verified: Sequence[Mapping[str, Any]]) -> Report:
    report = Report(
        results={"kinds": {}, "kills": list(rows), "verified": list(verified)},
    )
    report.criteria = [
        at_least("nodes killed / asked for", _share(rows, "killed", "asked"), 1.0),
        at_least("partitions lost, least of a kill", min((row["lost"] for row in rows), default=0), 1),
        at_least("queries seen, least of a kill", min((row["queries"] for row in rows), default=0), 1),
        at_least(
            "runs verified clean / runs", sum(one["clean"] for one in verified) / max(1, len(verified)), 1.0
        ),
        at_least("rows compared, least of a run", min((one["rows"] for one in verified), default=0), 1),
    ]
    summary = Table(title="Seconds from SIGKILL to output of all queries", title_justify="left")
    for column in (
        "nodes killed", "kills", "median", "p95", "most", "without failure", "anything new", "longest gap",
        "others",
    ):  # fmt: skip
        summary.add_column(column, justify="left" if column == "nodes killed" else "right")
    report.tables.append(summary)
    for count in sorted({row["asked"] for row in rows}, reverse=True):
        those = [row for row in rows if row["asked"] == count]
        kind = f"{count} of {NODES}"
        report.results["kinds"][kind] = found = described(those)
        summary.add_row(
            kind, str(found["kills"]),
            *(f"{found[name]:.2f}" for name in ("median", "p95", "most", "peace", "news", "gap", "others")),
        )  # fmt: skip
        report.criteria += bounds(kind, count, found)
        report.tables.append(timeline(kind, those))
    return report


def described(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Kills of one kind: of what is not called otherwise the median."""
    seconds = [row["seconds"] for row in rows]
    return {
        "kills": len(rows),
        "median": statistics.median(seconds),
        "p95": percentile(seconds, 0.95),
        "most": max(seconds),
        **{name: statistics.median(row[name] for row in rows) for name in ("peace", "news", "gap")},
        # Reports to which a run is added may lack it.
        "others": statistics.median([row["others"] for row in rows if "others" in row] or [0.0]),
        "waves": statistics.median(row["waves"] for row in rows),
    }


def bounds(kind: str, count: int, found: Mapping[str, Any]) -> list[Criterion]:
    if count not in BOUNDS:
        return []
    median, p95 = BOUNDS[count]
    criteria = [
        at_least(f"{kind}: kills", found["kills"], ASKED_FOR),
        at_most(f"{kind}: median (s)", found["median"], median),
    ]
    if p95 is not None:
        criteria.append(at_most(f"{kind}: 95th percentile (s)", found["p95"], p95))
    return criteria


def timeline(kind: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Where the time goes: of the kill in the middle, of the slowest, and the medians of all."""
    ordered = sorted(rows, key=lambda row: float(row["seconds"]))
    middle, slowest = ordered[(len(ordered) - 1) // 2]["stages"], ordered[-1]["stages"]
    medians = {
        name: statistics.median(row["stages"][name] for row in rows if name in row["stages"])
        for name in {name for row in rows for name in row["stages"]}
    }
    table = Table(title=f"{kind}: seconds since SIGKILL", title_justify="left")
    table.add_column("")
    for column in ("median kill", "slowest kill", "median of all"):
        table.add_column(column, justify="right")
    for name, median in sorted(medians.items(), key=lambda item: item[1]):
        table.add_row(name, *(f"{one[name]:.2f}" if name in one else "-" for one in (middle, slowest)),
                      f"{median:.2f}")  # fmt: skip
    return table


def _share(rows: Sequence[Mapping[str, Any]], part: str, whole: str) -> float:
    return float(sum(row[part] for row in rows) / max(1, sum(row[whole] for row in rows)))
