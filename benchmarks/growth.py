"""`python -m benchmarks.growth`: what an installation keeps after a month, by kind, and rows and bytes a day.

A month is simulated in an SQLite of its own: clock and rows are made, at the rates of the demo, and
retention (`controlplane/retention`) runs on them every hour. It fails if of a kind nothing was made or
removed, or if more is left than its bounds permit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from host import environment
from host.environment import Keep

DAYS = 30
SCALE = 100
"""One of so many rows is made; rates and bounds by size are divided by it. Ages stay."""
MEASURED = 2_000
"""Rows by which the bytes of one are measured."""
LOG_BYTES_A_DAY = 40_000_000
"""Of one driver, with its warnings."""
LONGEST = 20 * 86_400.0
"""Seconds. Longer bounds by age are brought into the month, or nothing would be removed."""

CHANGES = [
    {"entity": "topology", "key": "hashtags", "fields": {"head_epoch": 1, "input_rate": 1000.0, "lag": 0.2}},
    *(
        {"entity": "query", "key": f"hashtags/O{number}[0]", "fields": {"latency": 1.2, "epoch": 4711}}
        for number in range(15)
    ),
]
"""Of an event with measurements, about as long as those of the demo."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows a day, and how one is made: its fields at a moment."""

    rows: int
    fields: Callable[[datetime, int], dict[str, Any]]


def rates(topology: Any, node: Any, user: Any) -> dict[str, Rate]:
    """Of every kind. The demo: fifteen queries on four nodes, a checkpoint every ten seconds."""

    def key(number: int) -> str:
        return f"{number:032d}"

    return {
        "events": Rate(
            20_000,
            lambda at, n: {"kind": "checkpoint.completed", "at": at, "changes": CHANGES[:2], "sequence": n},
        ),
        "metrics": Rate(
            170_000, lambda at, n: {"kind": "topology.metrics", "at": at, "changes": CHANGES, "sequence": n}
        ),
        "availability": Rate(
            86_400,
            lambda at, n: {"topology": topology, "at": at, "available": 15, "total": 15, "weighted": 1.0},
        ),
        "node_samples": Rate(34_560, lambda at, n: {"node": node, "at": at, "cpu_percent": 40.0}),
        "checkpoints": Rate(
            8_640, lambda at, n: {"topology": topology, "epoch": n, "state": "completed", "started_at": at}
        ),
        "audit": Rate(
            500,
            lambda at, n: {
                "at": at, "actor": "ada", "action": "topology.deploy", "target": "hashtags", "reason": "why",
                "after": {"state": "deploying"},
            },
        ),
        "operations": Rate(
            500,
            lambda at, n: {
                "created_at": at, "kind": "topology.checkpoint", "target": "hashtags", "state": "succeeded",
                "requested_by": "ada", "reason": "why", "idempotency_key": key(n),
            },
        ),
        "problems": Rate(100, lambda at, n: {"at": at, "where": f"operator {n}", "what": "a bad row"}),
        "sessions": Rate(
            200,
            lambda at, n: {"session_key": key(n), "session_data": "x" * 200, "expire_date": at},
        ),
        "tokens": Rate(
            100,
            lambda at, n: {"digest": key(n), "token_key": key(n)[-15:], "user": user, "expiry": at},
        ),
        "answers": Rate(
            2_000,
            lambda at, n: {
                "actor": "ada", "key": key(n), "request": key(n), "status": 201, "body": {"name": "hashtags"},
                "created_at": at,
            },
        ),
        "deliveries": Rate(
            20_000,
            lambda at, n: {
                "id": uuid.UUID(int=n), "webhook_id": 1, "kind": "checkpoint.completed", "sequence": n,
                "state": "succeeded", "due_at": at, "created_at": at, "ended_at": at,
            },
        ),
        "sign_ins": Rate(
            500,
            lambda at, n: {
                "username": key(n), "ip_address": "192.0.2.1", "attempt_time": at, "failures_since_start": 1,
            },
        ),
    }  # fmt: skip


@contextmanager
def clock(moment: list[datetime]) -> Iterator[None]:
    """Have everything that asks Django for the time be told this moment."""
    from django.utils import timezone

    now = timezone.now
    timezone.now = lambda: moment[0]
    try:
        yield
    finally:
        timezone.now = now


@dataclass(slots=True)
class Course:
    made: int = 0
    removed: int = 0


def month(home: Path, days: int, scale: int) -> dict[str, Any]:
    """Live through the days; returns what each kind came to."""
    from django.utils import timezone

    from controlplane.retention.kinds import KINDS
    from controlplane.retention.services import kind_trim

    topology, node, user = installation()
    making = rates(topology, node, user)
    start = timezone.now() - timedelta(days=days)
    sizes = {kind.name: row_bytes(kind, making[kind.name], start) for kind in KINDS}
    courses = {kind.name: Course() for kind in KINDS}
    moment = [start]
    numbers = {"event": 0}
    with clock(moment):
        for hour in range(24 * days):
            moment[0] = start + timedelta(hours=hour + 1)
            for kind in KINDS:
                course, rate = courses[kind.name], making[kind.name]
                wanted = rate.rows * (hour + 1) // (24 * scale) - course.made
                rows = []
                for index in range(wanted):
                    at = moment[0] - timedelta(hours=1) * (1 - index / wanted)
                    number = course.made + index + 1
                    if kind.model == "events.Event":
                        numbers["event"] += 1
                        number = numbers["event"]
                    rows.append(rate.fields(at, number))
                insert(kind, rows)
                course.made += wanted
            for kind in KINDS:
                course = courses[kind.name]
                course.removed += kind_trim(kind, steps=10_000)
        left = {kind.name: kind.removable_rows().count() for kind in KINDS}
        late = {
            kind.name: kind.removable_rows().filter(**{f"{kind.at}__lt": moment[0] - kind.age}).count()
            for kind in KINDS
        }
    return {
        kind.name: {
            "rows_made_a_day": round(courses[kind.name].made * scale / days),
            "rows_removed_a_day": round(courses[kind.name].removed * scale / days),
            "bytes_made_a_day": round(courses[kind.name].made * scale / days * sizes[kind.name]),
            "rows_left": left[kind.name] * scale,
            "bytes_left": round(left[kind.name] * scale * sizes[kind.name]),
            "rows_out_of_bounds": late[kind.name] + max(0, left[kind.name] - kind.keep.size),
            "bound": str(Keep(kind.keep.age, kind.keep.size * scale)),
        }
        for kind in KINDS
    } | {"logs": logs(home, days)}


def row_bytes(kind: Any, rate: Rate, at: datetime) -> float:
    """What one row takes, with its indexes."""
    from controlplane.retention.selectors import tables_bytes

    before = tables_bytes([kind.model]).get(kind.model)
    insert(kind, [rate.fields(at, 10**9 + number) for number in range(MEASURED)])
    after = tables_bytes([kind.model]).get(kind.model)
    kind.rows().delete()
    if before is None or after is None:
        raise SystemExit("this SQLite was built without dbstat, by which bytes are measured")
    return (after - before) / MEASURED


def insert(kind: Any, rows: list[dict[str, Any]]) -> None:
    """With their own moments, also where a field takes the present one by itself."""
    from django.apps import apps

    if not rows:
        return
    model = apps.get_model(kind.model)
    made = model._default_manager.bulk_create([model(**fields) for fields in rows])
    field = model._meta.get_field(kind.at)
    if getattr(field, "auto_now_add", False):
        for row, fields in zip(made, rows, strict=True):
            setattr(row, kind.at, fields[kind.at])
        model._default_manager.bulk_update(made, [kind.at], batch_size=500)


def logs(home: Path, days: int) -> dict[str, Any]:
    """Four drivers that each write a day's lines into one file, and one of which ends every day."""
    from django.conf import settings

    from controlplane.retention.logs import log_files, logs_trim

    made = removed = 0
    keep = settings.RESURGE.keep_logs
    (home / "log").mkdir(exist_ok=True)
    for day in range(days):
        at = datetime.now().astimezone().timestamp() - (days - day) * 86_400.0
        for name in (f"driver.day-{day}.log", "driver.lasting.log"):
            path = home / "log" / name
            with open(path, "ab") as stream:
                # Sparse files have no blocks, so real bytes: a hundredth of a day's.
                stream.write(b"x" * (LOG_BYTES_A_DAY // 100))
            os.utime(path, (at, at))
            made += LOG_BYTES_A_DAY // 100
        removed += logs_trim(home, keep, longest=LOG_BYTES_A_DAY // 20)
    left = sum(one.bytes for one in log_files(home))
    return {
        "bytes_made_a_day": made * 100 // days,
        "bytes_removed_a_day": removed * 100 // days,
        "bytes_left": left * 100,
        "bound": str(keep),
    }


def installation() -> tuple[Any, Any, Any]:
    from django.contrib.auth import get_user_model

    from controlplane.nodes.models import Node
    from controlplane.topologies.models import Topology

    return (
        Topology.objects.create(name="hashtags"),
        Node.objects.create(name="node-1"),
        get_user_model().objects.create_user("ada"),
    )


def faults(found: dict[str, Any]) -> list[str]:
    """What must not be, in words."""
    wrong: list[str] = []
    for name, one in found.items():
        unit = "bytes" if name == "logs" else "rows"
        wrong += [f"{name}: nothing was made"] * (one[f"{unit}_made_a_day"] <= 0)
        wrong += [f"{name}: nothing was removed"] * (one[f"{unit}_removed_a_day"] <= 0)
        beyond = one.get("rows_out_of_bounds", 0)
        wrong += [f"{name}: {beyond} rows beyond the bounds are left"] * bool(beyond)
    return wrong


def bounds(scale: int) -> dict[str, str]:
    """Variables: the default bounds, brought into the month, for so many fewer rows."""
    defaults = environment.read({})
    found: dict[str, str] = {}
    for field in fields(defaults):
        keep = getattr(defaults, field.name)
        if isinstance(keep, Keep):
            size = keep.size if field.name == "keep_logs" else max(1, keep.size // scale)
            found[f"RESURGE_{field.name.upper()}"] = str(Keep(min(keep.age, LONGEST), size))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--scale", type=int, default=SCALE, help="make one of so many rows (default 100)")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="resurge-growth-") as name:
        home = Path(name)
        os.environ.update(
            bounds(options.scale), RESURGE_HOME=name, RESURGE_DATABASE_URL=f"sqlite:///{name}/growth.sqlite3",
            DJANGO_SETTINGS_MODULE="controlplane.config.settings",
        )  # fmt: skip
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        found = month(home, options.days, options.scale)
    for kind, figures in found.items():
        print(f"{kind:14} " + "  ".join(f"{name} {value}" for name, value in figures.items()))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    wrong = faults(found)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
