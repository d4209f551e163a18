"""Results over REST: read by a real process, with the reason where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.results import asking
from controlplane.topologies.models import Topology
from domain.topology.spec import ParquetSinkSpec
from spark_jobs.sinks.parquet_sink import ParquetSink
from tests.unit.controlplane.conftest import client_of
from tests.unit.controlplane.results.test_reading import windows

PATH = "/api/v1/topologies/counts/queries/O0[0]/results/"


@pytest.fixture
def viewer(topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> APIClient:
    monkeypatch.setattr(
        settings, "RESURGE", replace(settings.RESURGE, outputs=str(tmp_path), mask_columns=("secret",))
    )
    return client_of("viewer")


def deployed(**fields: Any) -> None:
    Topology.objects.update(deployed_at=timezone.now(), status="running", **fields)


def told(viewer: APIClient, path: str = PATH) -> tuple[int, str]:
    answer = viewer.get(path)
    return answer.status_code, answer.json()["errors"][0]["message"]


def written(root: Path) -> None:
    sink = ParquetSink(root, "counts", ParquetSinkSpec(), operators=["O0"], force=False)
    sink.prepare(deployed=1, life=1)
    for epoch in (2, 4):
        task = sink.outputs(deployed=1, attempt=0, life=1)
        task.write("O0", 0, epoch, windows(epoch))
        task.settle()
    sink.commit(epoch=4)
    sink.close()


def test_rows_come_page_by_page(viewer: APIClient, tmp_path: Path) -> None:
    deployed(committed_epoch=4)
    written(tmp_path)
    first = viewer.get(PATH, {"limit": 5, "windows": 10}).json()
    assert [row["count"] for row in first["rows"]] == [5, 4, 1, 0, 6]
    assert [window["total"] for window in first["windows"]] == [10, 12]
    second = viewer.get(PATH, {"limit": 5, "before": first["next"]}).json()
    assert [row["count"] for row in second["rows"]] == [4, 2, 0]
    assert second["next"] == ""


def test_it_is_said_why_there_are_none(viewer: APIClient, tmp_path: Path) -> None:
    assert told(viewer) == (404, "topology 'counts' has never been deployed: there are no results yet")
    deployed()
    assert "has not committed an epoch yet" in told(viewer)[1]
    deployed(committed_epoch=7)
    assert "deleted or moved" in told(viewer)[1]
    assert told(viewer, PATH.replace("O0[0]", "O9[0]")) == (404, "topology 'counts' has no query 'O9[0]'")
    assert told(viewer, PATH.replace("counts", "other"))[0] == 404
    assert told(viewer, f"{PATH}?before=7")[0] == 400
    assert told(viewer, f"{PATH}?limit=1001")[0] == 400
    assert told(viewer, f"{PATH}?offset=3")[0] == 400


def test_reading_ends_after_some_seconds(
    viewer: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(committed_epoch=4)
    written(tmp_path)
    monkeypatch.setattr(asking, "SECONDS", 0.001)
    status, message = told(viewer)
    assert (status, "and was ended" in message) == (409, True)


def test_few_are_read_at_once(viewer: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed(committed_epoch=4)
    written(tmp_path)
    monkeypatch.setattr(asking, "PATIENCE", 0.01)
    for _ in range(asking.AT_ONCE):
        asking._places.acquire()
    try:
        status, message = told(viewer)
        assert (status, "results of other queries are being read" in message) == (503, True)
        assert viewer.get(PATH)["Retry-After"] == "5"
    finally:
        for _ in range(asking.AT_ONCE):
            asking._places.release()
    assert viewer.get(PATH).status_code == 200
