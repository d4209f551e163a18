"""The export of incidents of which little is known, or none."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.topologies.models import AvailabilitySample, Topology

EXPORT = "/api/v1/incidents/2/export/"
EVIL = "</style><script>alert(1)</script> | `x` & *y*"


def test_an_incident_of_which_little_is_known(viewer: APIClient, topology: Topology) -> None:
    now = timezone.now()
    incident = Incident.objects.create(number=2, detected_at=now, opened_at=now, reason=EVIL)
    incident.topologies.add(topology)
    page = viewer.get(f"{EXPORT}?format=html").content.decode()
    assert "<script>" not in page
    assert "no samples are left" in page
    assert "No operator intervened" in page
    assert "nothing is verified" in page
    assert "not yet" in viewer.get(f"{EXPORT}?format=md").content.decode()


def test_refusals_keep_their_form(viewer: APIClient, db: None) -> None:
    for query in ("", "?format=html", "?format=md"):
        missing = viewer.get(EXPORT + query)
        assert missing.status_code == 404
        assert missing.json()["errors"][0]["message"] == "there is no incident 2"
    assert viewer.get(f"{EXPORT}?format=pdf").status_code == 400
    assert viewer.get(EXPORT, headers={"Accept": "image/png"}).status_code == 406


def test_the_number_of_queries_does_not_grow(viewer: APIClient, topology: Topology) -> None:
    now = timezone.now()
    incident = Incident.objects.create(number=2, detected_at=now, opened_at=now)
    incident.topologies.add(topology)

    def grow() -> int:
        for _ in range(5):
            IncidentEntry.objects.create(incident=incident, at=now, kind="step", text="x")
            AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=3, weighted=0.3)
        with CaptureQueriesContext(connection) as queries:
            assert viewer.get(EXPORT).status_code == 200
        return len(queries)

    grow()
    assert grow() == grow()
