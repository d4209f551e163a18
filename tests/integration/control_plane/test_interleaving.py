"""Services at the same moment, on PostgreSQL (`interleaving.py`). All pairs are in `every_pair.py`, which
takes long: here are those that the order of locks does not rule out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from controlplane.errors import ServiceError
from controlplane.events import tasks
from controlplane.incidents.models import Incident
from controlplane.nodes.models import Node
from controlplane.retention.kinds import KINDS
from controlplane.retention.selectors import retention_read
from controlplane.retention.services import kind_trim
from host.environment import ROOT, database_parse
from tests.integration.control_plane import interleaving
from tests.integration.control_plane.interleaving import alone, check, interleave, pairs
from tests.integration.control_plane.postgresql import Filled, Server, database, programs
from tests.integration.control_plane.writing_services import EVERY

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed on this machine"),
]

NOT_SERVICES = {
    ("controlplane/administration/forms.py", "_post_clean"): "calls a service",
    ("controlplane/administration/pages.py", "delete_view"): "calls a service",
    ("controlplane/api/actions.py", "act"): "calls a service",
    ("controlplane/api/idempotency.py", "once"): "calls a service",
    ("controlplane/events/services.py", "writing"): "makes services",
    ("controlplane/retention/services.py", "_step"): "deletes only; a test of its own",
    ("controlplane/snapshot/document.py", "_consistent_read"): "reads",
    ("workers/operations.py", "_by_incident"): "calls services",
    ("workers/operations.py", "_order"): "calls services",
}


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    with interleaving.postgresql() as one:
        yield one


@pytest.fixture(scope="module")
def filled(postgresql: Server, django_db_blocker: Any) -> Iterator[Filled]:
    with django_db_blocker.unblock(), interleaving.filled(postgresql) as one:
        yield one


@pytest.fixture
def fresh(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    monkeypatch.setattr(tasks, "task_send", lambda *_: None)
    filled.put_back()
    with database(database_parse(filled.url)):
        yield filled


def transactions() -> set[tuple[str, str]]:
    """File and name of each function of the product that makes a transaction."""
    found: set[tuple[str, str]] = set()
    for package in ("controlplane", "workers"):
        for path in (ROOT / package).rglob("*.py"):
            functions = (
                one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef)
            )
            for function in functions:
                begins = [ast.unparse(one) for one in function.decorator_list]
                for block in ast.walk(function):
                    if isinstance(block, ast.With):
                        begins += [ast.unparse(one.context_expr) for one in block.items]
                if "writing" in begins or any("transaction.atomic" in one for one in begins):
                    found.add((str(path.relative_to(ROOT)), function.name))
    return found


def test_every_service_is_tried_and_locks_in_one_order(fresh: Filled) -> None:
    """The counter of events before anything else, or never: then services that take it run one after another,
    and the others, which never wait for it, are few."""
    called: set[tuple[str, str]] = set()
    late: list[str] = []
    never: list[str] = []
    for name in EVERY:
        connections.close_all()
        fresh.put_back()
        run = alone(name)
        assert run.error is None or isinstance(run.error, ServiceError), f"{name}: {run.error!r}"
        called |= run.called
        if run.error is None and not takes_counter(run.locks):
            never.append(name)
        elif takes_counter(run.locks) and not takes_counter(run.locks[:1]):
            late.append(name)
    tried = {(path.removeprefix(f"{ROOT}/"), name) for path, name in called}
    assert transactions() - tried - set(NOT_SERVICES) == set()
    assert late == []
    assert set(never) <= set(UNNUMBERED)


def takes_counter(locks: list[str]) -> bool:
    return any("events_eventcounter" in sql for sql in locks)


UNNUMBERED = [
    *("cpu_model_learn", "former_cleared", "admin_ensure", "user_update", "user_password_set"),
    *("token_create", "token_revoke", "webhook_delete", "webhook_secret_rotate", "webhook_test"),
    *("deliveries_trim", "_record", "savepoint_delete", "savepoint imported"),
]
"""They do not take the counter of events."""


@pytest.mark.parametrize("first", UNNUMBERED)
def test_services_that_publish_no_events(fresh: Filled, first: str) -> None:
    """With itself and the others."""
    pairs(fresh, first, UNNUMBERED[UNNUMBERED.index(first) :])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("nodes_forget_old", "node_register again"),
        ("user_create", "user_create"),
        ("incident_open_or_grow", "incident_open_or_grow"),
    ],
)
def test_pairs_that_failed(fresh: Filled, first: str, second: str) -> None:
    """Each waited for the other, or made what the other had made."""
    pairs(fresh, first, [second])


def test_retention_on_postgresql(fresh: Filled) -> None:
    """What it does with SQL of its own."""
    kept = {one.name: one for one in retention_read()}
    # The others are files, which this installation may not have.
    assert all(kept[kind.name].bytes for kind in KINDS)
    assert kept["events"].rows > 0
    for kind in KINDS:
        kind_trim(kind)


def test_two_incidents_are_one(fresh: Filled) -> None:
    one, two = interleave("nodes_lost", "nodes_lost another")
    assert (one.error, two.error) == (None, None)
    incident = Incident.objects.get()
    assert {node.name for node in incident.failed_nodes.all()} == {"node-1", "node-2"}
    assert Node.objects.filter(state="lost").count() == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("driver_status_apply", "nodes_lost"),
        ("nodes_lost", "topology_metrics_apply"),
        ("topology_undeploy", "nodes_lost another"),
    ],
)
def test_every_statement(fresh: Filled, first: str, second: str) -> None:
    """Stopped before each of its writes in turn: no order in which locks are taken is a deadlock."""
    hold, writes = 0, 1
    while hold < writes:
        connections.close_all()
        fresh.put_back()
        one, two = interleave(first, second, hold)
        check(f"{first} held at {hold}, {second} meanwhile", one, two)
        hold, writes = hold + 1, one.writes
