"""The configuration of an operator over REST."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import settings
from rest_framework.test import APIClient

from controlplane.topologies.models import Topology

PATH = "/api/v1/topologies/counts/operators/"


def test_parameters_and_columns_are_told(
    viewer: APIClient, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE, mask_columns=("key",)))
    told = viewer.get(f"{PATH}O0/").json()
    assert told["params"] == [{"name": "size_s", "value": 10}, {"name": "slide_s", "value": 5}]
    assert (told["kind"], told["version"], told["output"], told["sql"]) == ("sliding_window", 1, True, "")
    columns = told["gives"]["columns"]
    assert [column["name"] for column in columns] == ["window_start", "window_end", "key", "count"]
    assert [column["name"] for column in columns if column["masked"]] == ["key"]
    assert told["gives"]["origin"] == "kind"
    (stream,) = told["inputs"]
    assert (stream["from"], stream["partitioning"], stream["key"]) == ("Parser", "full", "key")
    assert [column["name"] for column in stream["gives"]["columns"]] == ["ts", "key"]
    assert viewer.get(f"{PATH}Parser/").json()["inputs"][0]["key"] == "", "one_to_one goes by no key"


def test_sql_stands_apart(viewer: APIClient, topology: Topology) -> None:
    sql = {"name": "S", "kind": "sql", "inputs": [{"from": "Parser"}], "params": {"query": "SELECT 1"}}
    topology.spec["operators"] = [*topology.spec["operators"], sql]
    topology.save()
    told = viewer.get(f"{PATH}S/").json()
    assert (told["sql"], told["params"]) == ("SELECT 1", [])
    assert told["gives"] == {
        "columns": [],
        "origin": "unknown",
        "note": "Its query decides, so its columns are known only from its rows.",
    }


def test_what_there_is_not(viewer: APIClient, topology: Topology) -> None:
    answer = viewer.get(f"{PATH}O9/")
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["message"] == "topology 'counts' has no operator 'O9'"
    assert viewer.get("/api/v1/topologies/other/operators/O0/").status_code == 404
    assert viewer.get(f"{PATH}..%2FO0/").status_code == 404
    assert viewer.get(f"{PATH}O0/?window=1").status_code == 400
