"""The last rows of an operator over REST: results, a sample that a real task's code keeps, or a reason."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.nodes.models import Node
from controlplane.results import samples
from controlplane.topologies.models import Partition, Query, Topology
from spark_jobs.executor.samples import sample_keep
from spark_jobs.state.sample_files import sample_path, wanted_path
from tests.unit.controlplane.conftest import client_of
from tests.unit.controlplane.results.test_asking import written

PATH = "/api/v1/topologies/counts/operators/{}/rows/"


@pytest.fixture
def node(topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parser[0] and Source[0] are on node-1, whose disk this is."""
    monkeypatch.setattr(
        settings,
        "RESURGE",
        replace(settings.RESURGE, home=tmp_path, outputs=str(tmp_path / "outputs"), mask_columns=("secret",)),
    )
    Topology.objects.update(deployed_at=timezone.now(), status="running")
    Partition.objects.filter(topology=topology).delete()
    for operator, index, name in (("Parser", 0, "node-1"), ("Source", 0, "node-1"), ("Parser", 1, None)):
        placed = Node.objects.get(name=name) if name else None
        Partition.objects.create(topology=topology, operator=operator, index=index, node=placed)
    home = tmp_path / "nodes" / "node-1"
    home.mkdir(parents=True)
    return home


@pytest.fixture
def operator(node: Path) -> APIClient:
    return client_of("operator")


def told(operator: APIClient, name: str = "Parser", **query: Any) -> dict[str, Any]:
    answer = operator.get(PATH.format(name), query)
    assert answer.status_code == 200, answer.json()
    found: dict[str, Any] = answer.json()
    return found


def given(node: Path, epoch: int = 7, count: int = 3) -> None:
    table = pa.table(
        {
            "ts": pa.array([1_000_000 * number for number in range(count)], pa.int64()),
            "key": [f"k{number}" for number in range(count)],
            "secret": ["s3cret"] * count,
        }
    )
    sample_keep(node, "counts", "Parser[0]", epoch, table)


def test_a_sample_comes_after_it_was_asked_for(operator: APIClient, node: Path) -> None:
    given(node)
    first = told(operator)
    assert (first["origin"], first["rows"], first["note"]) == ("none", [], samples.WAITING)
    given(node)
    found = told(operator)
    assert (found["origin"], found["epoch"], found["partition"]) == ("sample", 7, "Parser[0]")
    assert [row["key"] for row in found["rows"]] == ["k2", "k1", "k0"]
    assert found["rows"][1] == {"ts": "1970-01-01T00:00:01Z", "key": "k1", "secret": "•••"}
    assert [column["type"] for column in found["columns"]] == ["time", "text", "text"]
    assert [column["name"] for column in found["columns"] if column["masked"]] == ["secret"]
    assert found["at"] is not None
    assert len(told(operator, limit=1)["rows"]) == 1


def test_each_look_prolongs_it(operator: APIClient, node: Path) -> None:
    told(operator)
    marker = wanted_path(node, "counts", "Parser[0]")
    os.utime(marker, (1, 1))
    before = time.time()
    told(operator)
    assert marker.stat().st_mtime > before - 1, "file systems keep coarse times"


def test_a_sample_of_an_earlier_deployment_is_not_shown(operator: APIClient, node: Path) -> None:
    told(operator)
    given(node)
    os.utime(sample_path(node, "counts", "Parser[0]"), (1, 1))
    assert told(operator)["origin"] == "none"


def test_results_of_an_output(operator: APIClient, node: Path, tmp_path: Path, topology: Topology) -> None:
    partition = Partition.objects.create(topology=topology, operator="O0", index=0)
    Query.objects.create(topology=topology, partition=partition)
    waiting = told(operator, "O0")
    assert waiting["origin"] == "none"
    assert waiting["note"] == "Topology 'counts' has not committed an epoch yet: there are no results yet."
    Topology.objects.update(committed_epoch=4)
    written(tmp_path / "outputs")
    found = told(operator, "O0", limit=2)
    assert (found["origin"], found["epoch"], found["at"]) == ("results", 4, None)
    assert [row["count"] for row in found["rows"]] == [5, 4]
    assert not (node / "samples").exists(), "nothing is kept of what has results"


def test_it_is_said_why_there_are_none(operator: APIClient, node: Path) -> None:
    assert told(operator, partition=1)["note"] == "Parser[1] is on no node, so it gives no rows."
    Topology.objects.update(status="paused")
    assert told(operator)["note"] == "The topology is paused, so it gives no rows."
    Topology.objects.update(deployed_at=None)
    assert told(operator)["note"] == "The topology has never been deployed."
    Topology.objects.update(deployed_at=timezone.now())
    Node.objects.filter(name="node-1").update(name="node-9")
    note = told(operator)["note"]
    assert note == "The disk of node-9 is not on this host, so its rows cannot be read here."


@pytest.mark.parametrize("name", ["{outside}", "../nodes/node-1", "../outside", "..", ".", "node-1/x"])
def test_no_name_of_a_node_leads_elsewhere(
    operator: APIClient, node: Path, tmp_path: Path, name: str
) -> None:
    """`outside` stands for any directory of the host: an absolute name would lead to it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (node / "x").mkdir()
    before = set(tmp_path.rglob("*"))
    Partition.objects.filter(node__name="node-1").update(node=None)
    other = Node.objects.get(name="node-2")
    Node.objects.filter(pk=other.pk).update(name=name.format(outside=outside))
    Partition.objects.filter(operator="Parser", index=0).update(node=other)
    assert told(operator)["origin"] == "none"
    assert set(tmp_path.rglob("*")) == before


def test_a_link_is_not_read(operator: APIClient, node: Path, tmp_path: Path) -> None:
    told(operator)
    given(node)
    path = sample_path(node, "counts", "Parser[0]")
    path.rename(tmp_path / "elsewhere.parquet")
    path.symlink_to(tmp_path / "elsewhere.parquet")
    assert told(operator)["origin"] == "none"


def test_a_damaged_sample(operator: APIClient, node: Path) -> None:
    told(operator)
    sample_path(node, "counts", "Parser[0]").write_bytes(b"PAR1 no")
    answer = operator.get(PATH.format("Parser"))
    assert answer.status_code in (200, 409)
    assert answer.status_code == 409 or answer.json()["origin"] == "none"


def test_rows_that_are_too_large(operator: APIClient, node: Path) -> None:
    told(operator)
    sample_keep(node, "counts", "Parser[0]", 1, pa.table({"text": ["x" * 1_100_000]}))
    found = told(operator)
    assert (found["rows"], found["note"]) == ([], samples.TOO_LARGE)


def test_only_operators_read_them(node: Path) -> None:
    assert client_of("viewer").get(PATH.format("Parser")).status_code == 403
    assert not (node / "samples").exists()


@pytest.mark.parametrize(
    "query", ["partition=2", "partition=-1", "partition=x", "limit=0", "limit=51", "before=1"]
)
def test_what_cannot_be_asked(operator: APIClient, query: str) -> None:
    assert operator.get(f"{PATH.format('Parser')}?{query}").status_code == 400
    assert operator.get(PATH.format("O9")).status_code == 404
