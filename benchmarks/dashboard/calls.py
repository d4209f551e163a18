"""REST: how long calls take, and how many database queries they make at two sizes of the fleet."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from rich.table import Table

from benchmarks.dashboard.figures import summary
from benchmarks.dashboard.server import USER, Client, Web
from benchmarks.runner import Report, Session, at_most
from host.environment import ROOT

BOUND_MS = 150.0
READABLE = re.compile(r"^  /api/v1/(\S*):\n    get:", re.MULTILINE)
# The schema's own documents are not calls of a page.
NOT_CALLS = ("schema/", "docs/")
NOT_LISTS = ("replication-plan/",)
"""Addresses without pages."""


def page_calls() -> dict[str, str]:
    """The calls that pages make when they are opened: name to path below ``/api/v1/``."""
    from controlplane.topologies.models import AvailabilitySample

    newest = AvailabilitySample.objects.order_by("-at").select_related("topology")[0]
    newest_at = newest.at.isoformat().replace("+00:00", "Z")
    samples = urlencode({"until": newest_at, "limit": 1000})
    return {
        "snapshot": "snapshot/",
        "sparklines": "events/?kind=topology.metrics&newest=true&limit=150",
        "availability": f"topologies/{newest.topology.name}/availability/?{samples}",
    }


def every_call() -> dict[str, str]:
    """All addresses that can be read: path in the schema to the path of an existing row."""
    paths = READABLE.findall((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    found = {}
    for path in paths:
        address = _address(path)
        if address is not None and path not in NOT_CALLS:
            found[path] = address
    return found


def _address(path: str) -> str | None:
    """`path` with the names of the first rows that exist; None if there are none."""
    from controlplane.events.models import AuditEntry, Operation
    from controlplane.incidents.models import Incident
    from controlplane.topologies.models import Problem

    rows: dict[str, Any] = {"audit": AuditEntry, "operations": Operation, "problems": Problem}
    newest = Incident.objects.order_by("-number").values_list("number", flat=True).first()
    values: dict[str, Any] = {"topology": "flat", "query": "O0%5B0%5D", "number": newest}
    values["name"] = "node-1" if path.startswith("nodes/") else "flat"
    collection = path.split("/")[0]
    if collection in rows:
        values["id"] = rows[collection].objects.values_list("pk", flat=True).first()
    wanted = re.findall(r"\{(\w+)\}", path)
    if any(values.get(name) is None for name in wanted):
        return None
    return path.format(**values)


def queries_count() -> dict[str, int]:
    """Database queries of each call, made in this process, with the largest page. Each call is made once
    before, so that data which a process reads once and keeps is not counted."""
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import Client as InProcess
    from django.test.utils import CaptureQueriesContext

    client = InProcess(HTTP_HOST="127.0.0.1")
    client.force_login(get_user_model().objects.get(username=USER))
    counts = {}
    for name, path in every_call().items():
        page = "" if path.endswith(NOT_LISTS) else f"{'&' if '?' in path else '?'}limit=1000"
        address = f"/api/v1/{path}{page}"
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            response = client.get(address)
        if response.status_code != 200:
            raise RuntimeError(f"{path} was answered with {response.status_code}")
        counts[name] = len(queries)
    return counts


def durations(session: Session, report: Report, web: Web, client: Client) -> None:
    """Milliseconds from the request to the last byte of the answer, and of the server's CPU time, one call
    after the other. The first call of each address does not count."""
    asked = {name: (path, 200) for name, path in page_calls().items()}
    asked |= {name: (path, 100) for name, path in every_call().items() if name not in ("snapshot/",)}
    rows = {}
    with session.progress("REST calls", len(asked)) as step:
        for name, (path, repeats) in asked.items():
            repeats = repeats // 5 if session.quick else repeats
            client.get(path)  # the process reads and keeps some data at the first call
            busy = web.cpu_seconds()
            measured = [client.get(path) for _ in range(repeats)]
            busy = web.cpu_seconds() - busy
            rows[name] = {
                **summary([1000 * seconds for seconds, _ in measured]),
                "processor": round(1000 * busy / repeats, 1),
                "calls": repeats,
                "kilobytes": round(measured[0][1] / 1000, 1),
            }
            step()
    report.results["rest_ms"] = rows
    pages = page_calls()
    for name in pages:
        report.criteria.append(at_most(f"p99 of the call {name} (ms)", rows[name]["p99"], BOUND_MS))
    others = {name: row["p99"] for name, row in rows.items() if name not in pages}
    slowest = max(others, key=lambda name: others[name])
    title = f"p99 of each of {len(others)} other calls (ms), slowest: {slowest}"
    report.criteria.append(at_most(title, others[slowest], BOUND_MS))
    report.tables.append(_table(rows, pages))


def queries_compare(report: Report, small: dict[str, int], large: dict[str, int]) -> None:
    report.results["queries"] = {
        name: {"small": small.get(name), "large": count} for name, count in large.items()
    }
    more = sum(1 for name, count in small.items() if large[name] > count)
    report.criteria.append(at_most("calls that take more queries on the large fleet", more, 0))
    report.criteria.append(at_most("most queries of one call", max(large.values()), 30))


def _table(rows: dict[str, Any], pages: dict[str, str]) -> Table:
    table = Table(title="REST calls (ms)", title_justify="left")
    for column in ("call", "median", "p99", "highest", "processor", "kB"):
        table.add_column(column, justify="left" if column == "call" else "right")
    slowest_first = sorted(rows, key=lambda name: (name not in pages, -rows[name]["p99"]))
    for name in slowest_first[:14]:
        row = rows[name]
        figures = (row["median"], row["p99"], row["highest"], row["processor"], row["kilobytes"])
        table.add_row(f"[bold]{name}[/]" if name in pages else name, *(f"{one:,.1f}" for one in figures))
    return table
