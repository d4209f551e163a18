"""The dashboard over a large fleet: 1,000 nodes, 10,000 partitions and 1,000 queries on SQLite, a fifth of
the nodes lost, and a day of history.

Measures REST calls and their database queries, pages in Chromium, updates over 500 websockets, and the graph
of 1,000 partitions. The web server and Redis are those of an installation; the fleet's reports are simulated.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.dashboard.server import (
    PASSWORD,
    USER,
    installation_compose,
    redis_running,
    web_running,
)
from benchmarks.runner import Report, Session, run
from benchmarks.stack import stopping_in_order

PARTS = ("calls", "sockets", "pages", "graphs")
MINUTES = 15


def measure(session: Session) -> Report:
    report = Report()
    with stopping_in_order(), _home(session) as home:
        installation = installation_compose(home)
        with redis_running(installation):
            small = _fleet(session, report, home)
            wanted = session.options.only or PARTS
            from benchmarks.dashboard import calls, pages, sockets
            from benchmarks.dashboard.history import samples_renew
            from controlplane.incidents.models import Incident

            samples_renew(seconds=60 * MINUTES)
            incident = int(Incident.objects.order_by("-number")[0].number)
            if "calls" in wanted:
                calls.queries_compare(report, small, calls.queries_count())
            with web_running(installation) as web:
                client = web.sign_in()
                if "calls" in wanted:
                    calls.durations(session, report, web, client)
                if "sockets" in wanted:
                    sockets.arrival(session, report, web, client)
                if "pages" in wanted:
                    pages.first_paints(session, report, web, incident)
                if "graphs" in wanted:
                    pages.graphs(session, report, web)
    return report


def _fleet(session: Session, report: Report, home: Path) -> dict[str, int]:
    """Write the fleet unless it is there; the database queries of each call while it was small."""
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from benchmarks.dashboard.calls import queries_count
    from benchmarks.dashboard.fleet import BEATS, Fleet, FleetSize
    from benchmarks.dashboard.history import history_write
    from benchmarks.dashboard.specs import PARTITIONS, QUERIES

    small, large = FleetSize(nodes=100, topologies=1), FleetSize()
    hours, incidents, lost = 24, 48, 200
    if session.quick:
        large, hours, incidents, lost = FleetSize(nodes=200, topologies=2), 1, 4, 40
    report.parameters = {"nodes": large.nodes, "lost": lost, "topologies": large.topologies, "hours": hours}
    report.parameters |= {"partitions": PARTITIONS * large.topologies, "queries": QUERIES * large.topologies}
    counted = home / "queries-small.json"
    if not counted.exists():
        call_command("migrate", verbosity=0)
        get_user_model().objects.create_superuser(USER, password=PASSWORD)
        fleet = Fleet()
        steps = large.nodes + 3 * large.topologies + 2 * BEATS + incidents + 5
        with session.progress("writing the fleet", steps) as step:
            fleet.grow(small, step)
            history_write(seconds=3600 * hours, incidents=2, step=step)
            counts = queries_count()
            fleet.grow(large, step)
            history_write(seconds=3600 * hours, incidents=incidents, step=step)
            fleet.lose(lost)
        counted.write_text(json.dumps(counts))
    known: dict[str, int] = json.loads(counted.read_text())
    return known


@contextmanager
def _home(session: Session) -> Iterator[Path]:
    if session.options.home is not None:
        session.options.home.mkdir(parents=True, exist_ok=True)
        yield session.options.home.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="resurge-fleet-") as name:
            yield Path(name)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", type=Path, help="keep the fleet here, and take it from here the next time")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this; may be repeated")


if __name__ == "__main__":
    sys.exit(run(name="dashboard", about=__doc__, measure=measure, arguments=arguments))
