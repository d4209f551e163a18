from __future__ import annotations

import pytest
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
    assert 'resurge_queries{topology="counts"} 3.0' in text
    assert 'resurge_nodes{state="alive"} 4.0' in text
    assert "resurge_incidents_open 0.0" in text
    assert "resurge_webhook_deliveries_pending 0.0" in text
    assert "resurge_webhooks_failing 0.0" in text
