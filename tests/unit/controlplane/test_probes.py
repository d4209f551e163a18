from __future__ import annotations

import pytest
from django.test import Client

from controlplane.config import probes
from controlplane.topologies.models import Topology


def _fails() -> None:
    raise ConnectionError("nobody there")


@pytest.mark.django_db
def test_liveness_asks_nobody(client: Client) -> None:
    assert client.get("/healthz").content == b"ok\n"


@pytest.mark.django_db
def test_readiness_names_what_is_missing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "CHECKS", {"database": probes._database, "redis": _fails})
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": "ok", "redis": "ConnectionError: nobody there"}
    monkeypatch.setattr(probes, "CHECKS", {"database": probes._database})
    assert client.get("/readyz").status_code == 200


def test_figures_for_prometheus(client: Client, topology: Topology) -> None:
    for _ in range(2):
        text = client.get("/metrics").content.decode()
    assert 'resurge_queries{topology="counts"} 3.0' in text
    assert 'resurge_nodes{state="alive"} 4.0' in text
    assert "resurge_incidents_open 0.0" in text
    assert "resurge_webhook_deliveries_pending 0.0" in text
    assert "resurge_webhooks_failing 0.0" in text
