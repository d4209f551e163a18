from __future__ import annotations

from typing import Any

import pytest
from django.db import InternalError, OperationalError
from django.test import Client
from rest_framework.test import APIClient

from controlplane.config import probes
from controlplane.topologies.models import Topology


def _fails() -> None:
    raise ConnectionError("connection refused")


@pytest.mark.django_db
def test_liveness_asks_no_server(client: Client) -> None:
    assert client.get("/healthz").content == b"ok\n"


@pytest.mark.django_db
def test_readiness_names_what_is_missing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_remembered", None)
    monkeypatch.setattr(probes, "CHECKS", {"database": probes._database, "redis": _fails})
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": "ok", "redis": "unavailable"}, (
        "the reason stays in the log"
    )
    monkeypatch.setattr(probes, "CHECKS", {"database": probes._database})
    assert client.get("/readyz").status_code == 503, "asked once a second at most"
    monkeypatch.setattr(probes, "REMEMBERED", 0.0)
    assert client.get("/readyz").status_code == 200


def test_figures_for_prometheus(client: Client, viewer: APIClient, topology: Topology) -> None:
    assert client.get("/metrics").status_code == 401
    for kind in ("text/plain", "application/openmetrics-text;version=1.0.0,*/*;q=0.1"):
        text = viewer.get("/metrics", headers={"Accept": kind}).content.decode()
    assert "resurge_queries{" not in text, "a draft's queries are to give no results"
    assert 'resurge_topology_health{state="draft",topology="counts"} 1.0' in text
    assert 'resurge_nodes{state="alive"} 4.0' in text
    assert "resurge_incidents_open 0.0" in text
    assert "resurge_webhook_deliveries_pending 0.0" in text
    assert "resurge_webhooks_failing 0.0" in text
    Topology.objects.update(status="running")
    text = viewer.get("/metrics").content.decode()
    assert 'resurge_queries{topology="counts"} 3.0' in text
    assert 'resurge_topology_health{state="catching_up",topology="counts"} 1.0' in text
    assert 'resurge_checkpoint_epoch{topology="counts"} 0.0' in text
    Topology.objects.update(guarantee="bounded")
    assert "resurge_checkpoint_epoch{" not in viewer.get("/metrics").content.decode()


@pytest.mark.django_db
def test_readiness_names_the_threads_that_give_no_sign(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "REMEMBERED", 0.0)
    monkeypatch.setattr(probes, "CHECKS", {"threads": probes._threads})
    monkeypatch.setattr(probes, "threads_missing", lambda redis: ["node-watch", "lifelines"])
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (
        503,
        {"threads": "missing: node-watch, lifelines"},
    )
    monkeypatch.setattr(probes, "threads_missing", lambda redis: [])
    assert client.get("/readyz").status_code == 200


# ---- a database that takes nothing now -----------------------------------------------------------


def _locked(*_: Any, **__: Any) -> Any:
    raise OperationalError("database is locked")


def _read_only(*_: Any, **__: Any) -> Any:
    raise InternalError("cannot execute UPDATE in a read-only transaction")


@pytest.mark.parametrize("fails", [_locked, _read_only])
def test_rest_says_when_to_try_again(
    operator: APIClient, fails: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.api.topologies.views.TopologyViewSet.get_queryset", fails)
    answer = operator.get("/api/v1/topologies/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer.json()["errors"][0]["message"].startswith("The database is busy or away")


@pytest.mark.django_db
def test_pages_say_when_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a middleware needs the database, outside every view."""
    client = Client(raise_request_exception=False)
    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", _locked)
    client.cookies["sessionid"] = "a" * 32
    for path in ("/", "/admin/"):
        answer = client.get(path)
        assert (answer.status_code, answer["Retry-After"]) == (503, "5")


@pytest.mark.django_db
def test_another_error_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.config.probes._checked", lambda: 1 / 0)
    assert Client(raise_request_exception=False).get("/readyz").status_code == 500
