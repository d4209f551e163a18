"""Websockets: from the commit of an event to its arrival at every one of many clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.table import Table

from benchmarks.dashboard.figures import summary
from benchmarks.dashboard.server import Client, Web, cpu_seconds
from benchmarks.runner import Report, Session, at_most
from host.environment import ROOT

CLIENTS = 500
BOUND_MS = 500.0
BETWEEN = 0.4
SETTLE = 3.0
ENDED_WITHIN = 120.0
"""Seconds. The reporting process ends after its present second, which may take long on a busy machine."""


class Listeners:
    """The process of the clients."""

    def __init__(self, web: Web, client: Client, after: int) -> None:
        command = [sys.executable, "-m", "benchmarks.dashboard.listeners", "--port", str(web.port)]
        command += ["--cookie", client.cookie, "--after", str(after)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 - both were asked for
        stdin.write(json.dumps({"do": do, **more}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError("the process of the clients has ended; what it said is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._process.pid)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def arrival(session: Session, report: Report, web: Web, client: Client) -> None:
    """Updates while nothing else happens, and while the whole fleet reports each second."""
    from controlplane.events.models import EventCounter

    count = CLIENTS // 5 if session.quick else CLIENTS
    updates = 20 if session.quick else 60
    with session.progress(f"{count} websocket clients", 3) as step:
        listeners = Listeners(web, client, EventCounter.objects.get().value)
        try:
            before = web.memory()
            started = time.perf_counter()
            connected = listeners.ask("connect", count=count)
            seconds = time.perf_counter() - started
            time.sleep(SETTLE)
            connected_memory = web.memory()
            step()
            rows = {"quiet": _phase(listeners, web, updates)}
            step()
            with ingesting() as ingestion:
                time.sleep(SETTLE)
                rows["whole fleet reporting"] = _phase(listeners, web, updates)
                rows["whole fleet reporting"]["seconds_ingestion_was_late"] = ingestion
            step()
            after = web.memory()
        finally:
            listeners.end()
    memory = {
        "kilobytes_per_client": round((connected_memory - before) / count / 1000, 1),
        "kilobytes_per_client_under_load": round((after - before) / count / 1000, 1),
        "server_megabytes_without_clients": round(before / 1e6),
    }
    report.results["websockets"] = {
        "clients": count,
        "seconds_to_connect": round(seconds, 1),
        "compressed": connected["compressed"],
        "phases": rows,
        "memory": memory,
    }
    for name, row in rows.items():
        report.criteria.append(at_most(f"p99 arrival at {count} clients, {name} (ms)", row["p99"], BOUND_MS))
        report.criteria.append(at_most(f"updates that did not arrive, {name}", row["missing"], 0))
    report.tables.append(_table(count, rows, memory))


def _phase(listeners: Listeners, web: Web, updates: int) -> dict[str, Any]:
    listeners.ask("forget")
    clock, server, clients = time.perf_counter(), web.cpu_seconds(), listeners.cpu_seconds()
    commits = {}
    for _ in range(updates):
        sequence, at = _update()
        commits[sequence] = at
        time.sleep(BETWEEN)
    time.sleep(2 * BOUND_MS / 1000)
    seconds = time.perf_counter() - clock
    server, clients = web.cpu_seconds() - server, listeners.cpu_seconds() - clients
    heard = listeners.ask("report")["heard"]
    delays, missing = [], 0
    for messages in heard:
        arrived = {
            sequence: at
            for at, after, last, _ in reversed(messages)
            for sequence in range(after + 1, last + 1)
            if sequence in commits
        }
        missing += len(commits) - len(arrived)
        delays += [1000 * (at - commits[sequence]) for sequence, at in arrived.items()]
    return {
        **summary(delays or [float("inf")]),
        "missing": missing,
        "updates": updates,
        "messages_a_second": round(sum(map(len, heard)) / len(heard) / seconds, 1),
        "kilobytes_a_second_each": round(
            sum(size for messages in heard for *_, size in messages) / len(heard) / seconds / 1000, 1
        ),
        "server_cores": round(server / seconds, 2),
        "clients_cores": round(clients / seconds, 2),
    }


def _update() -> tuple[int, float]:
    """An operator changes a priority; the sequence number of the event and when it was committed."""
    from django.db import transaction

    from benchmarks.dashboard.fleet import OPERATOR
    from controlplane.events.models import EventCounter
    from controlplane.lifecycle.recovery_terms import query_priorities_set
    from controlplane.topologies.models import Query

    # Another priority than now: an unchanged one publishes no event.
    query = Query.objects.get(topology__name="flat", partition__operator="O0", partition__index=0)
    priority = 1 + query.priority % 10
    committed: list[float] = []
    with transaction.atomic():
        # Before the service's own, which sends the hint.
        transaction.on_commit(lambda: committed.append(time.time()))
        query_priorities_set(topology="flat", priorities={"O0[0]": priority}, **OPERATOR)
        sequence = EventCounter.objects.get().value
    return sequence, committed[0]


@contextmanager
def ingesting() -> Iterator[dict[str, int]]:
    """The fleet reports meanwhile; the yielded figures are there when it has ended."""
    command = [sys.executable, "-m", "benchmarks.dashboard.ingesting"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    figures: dict[str, int] = {}
    try:
        yield figures
    finally:
        process.terminate()
        try:
            said, _ = process.communicate(timeout=ENDED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        seconds, late = said.split()
        figures |= {"of": int(seconds), "late": int(late)}


def _table(count: int, rows: dict[str, dict[str, Any]], memory: dict[str, float]) -> Table:
    each = memory["kilobytes_per_client"]
    title = f"Commit to arrival at {count} websockets (ms); {each:.0f} kB of memory each"
    table = Table(title=title, title_justify="left")
    columns = {
        "median": "median",
        "p99": "p99",
        "highest": "highest",
        "messages_a_second": "messages/s",
        "kilobytes_a_second_each": "kB/s each",
        "server_cores": "server, cores",
        "clients_cores": "clients, cores",
    }
    table.add_column("")
    for label in columns.values():
        table.add_column(label, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{row[column]:,.1f}" for column in columns))
    return table
