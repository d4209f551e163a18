"""Checking a specification without accepting it, over REST and on the command line; YAML bodies."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from controlplane.events.models import AuditEntry, Event
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.validation import pipeline_read, spec_validate
from tests.unit.controlplane.conftest import user_of
from tests.unit.controlplane.specs import spec_of
from tests.unit.domain.topology.bombs import merge_keys

VALIDATE = "/api/v1/topologies/validate/"
WHY = {"reason": "because"}


def paths(verdict: dict[str, Any]) -> list[str]:
    return sorted(problem["path"] for problem in verdict["problems"])


@pytest.mark.parametrize("name", [[], {}, ["counts"]])
def test_a_name_that_is_no_text_is_told(operator: APIClient, name: Any) -> None:
    answer = operator.post(VALIDATE, {"spec": {**spec_of(), "name": name}})
    assert (answer.status_code, paths(answer.json())) == (200, ["name"])


def test_a_valid_specification_is_outlined_and_nothing_changes(operator: APIClient) -> None:
    answer = operator.post(VALIDATE, {"spec": spec_of()})
    assert answer.status_code == 200
    assert answer.json() == {
        "valid": True,
        "problems": [],
        "notes": [],
        "topology": {
            "name": "counts",
            "operators": 4,
            "partitions": 7,
            "queries": ["O0[0]", "O0[1]", "O1[0]"],
        },
    }
    named = operator.post(VALIDATE, {"pipeline": "hashtags", "name": "mine", "rate": 5}).json()
    assert (named["valid"], named["topology"]["name"]) == (True, "mine")
    assert not any(model.objects.exists() for model in (Topology, AuditEntry, Event))


def with_query(**more: Any) -> dict[str, Any]:
    spec = spec_of()
    inputs = [{"from": spec["operators"][-1]["name"]}]
    query = {"query": "SELECT *, now() AS at FROM input"}
    spec["operators"].append({"name": "Q", "kind": "sql", "inputs": inputs, "params": query, **more})
    return spec


@pytest.mark.parametrize(
    ("said", "note", "shown", "whole"),
    [
        ({}, "taken for not deterministic", "Taken for not deterministic: now()", False),
        ({"deterministic": True}, "said to be deterministic", "says that it is deterministic. This", True),
        ({"deterministic": False}, "", "says that it is not deterministic", False),
    ],
)
def test_what_cannot_be_known_is_noted_and_shown(
    operator: APIClient, said: dict[str, bool], note: str, shown: str, whole: bool
) -> None:
    spec = with_query(**said)
    verdict = operator.post(VALIDATE, {"spec": spec}).json()
    assert verdict["valid"]
    notes = [(one["path"], note in one["message"]) for one in verdict["notes"]]
    assert notes == ([("operators[4].deterministic", True)] if note else [])
    assert operator.post("/api/v1/topologies/", {"spec": spec, **WHY}).status_code == 201
    detail = operator.get(f"/api/v1/topologies/{spec['name']}/").json()
    (drawn,) = (one for one in detail["graph"]["operators"] if one["name"] == "Q")
    assert (drawn["deterministic"], shown in drawn["determinism"]) == (whole, True)
    others = [one for one in detail["graph"]["operators"] if one["name"] != "Q"]
    assert {(one["deterministic"], one["determinism"]) for one in others} == {(True, "")}
    stored = Topology.objects.get(name=spec["name"])
    assert graph_of(stored.spec).deterministic is whole
    # The author's word is not made of what was found: the query may change.
    stored.spec["operators"][-1]["params"]["query"] = "SELECT * FROM input"
    again = spec_validate(stored.spec)
    assert again.deterministic is (said.get("deterministic") is not False)


def test_a_fault_in_a_text_has_its_line(operator: APIClient) -> None:
    text = "name: counts\noperators:\n- name: S\n  kind: sourse\n  priority: 11\n"
    verdict = operator.post(VALIDATE, {"spec": text}).json()
    assert {problem["path"]: problem["line"] for problem in verdict["problems"]} == {
        "operators[0].kind": 4,
        "operators[0].priority": 5,
    }
    refused = operator.post("/api/v1/topologies/", {"spec": text, "name": "No Name", **WHY})
    assert refused.status_code == 400
    lines = {error["path"]: error.get("line") for error in refused.json()["errors"]}
    assert lines["operators[0].priority"] == 5
    assert lines["name"] is None  # it was not given by the text


def test_everything_wrong_comes_at_once(operator: APIClient) -> None:
    spec = spec_of()
    spec["epoch_interval"] = "soon"
    spec["operators"][1]["params"] = {"pattern": "("}
    spec["operators"][2] |= {"kind": "nonsense", "priority": 11}
    spec["operators"][3]["inputs"] = [{"from": "Missing"}]
    verdict = operator.post(VALIDATE, {"spec": spec}).json()
    assert (verdict["valid"], verdict["topology"]) == (False, None)
    assert paths(verdict) == [
        "epoch_interval",
        "operators[1].params",
        "operators[2].kind",
        "operators[2].priority",
        "operators[3].inputs[0].from",
    ]


def test_inputs_are_looked_at_too(operator: APIClient, tmp_path: Path) -> None:
    empty, pipe = tmp_path / "empty.csv", tmp_path / "pipe"
    empty.touch()
    os.mkfifo(pipe)
    for file, message in (
        (empty, "is empty"),
        (pipe, "neither a file nor a directory"),
        (tmp_path / "absent.csv", "there is no file"),
        (tmp_path / ("x" * 300), "cannot be looked at"),
    ):
        verdict = operator.post(VALIDATE, {"pipeline": "hashtags", "input": str(file)}).json()
        assert paths(verdict) == ["operators[0].params.path"]
        assert message in verdict["problems"][0]["message"]
        assert verdict["topology"]["name"] == "hashtags", "the specification itself is sound"


def test_rates_of_arrivals_are_looked_at_too(operator: APIClient, tmp_path: Path) -> None:
    spec = pipeline_read("top-pages")
    params = spec["operators"][0]["params"]
    rates = tmp_path / "rates.csv"
    params["arrivals"] = str(rates)
    for body, message in (
        (None, "there is no file"),
        ("", "is empty"),
        ("minute,requests\n", "the file has no rows; a step's length needs two. Give a CSV file"),
        ("minute,requests\n1998-06-30,4\n1998-07-01,-2\n", "line 3: -2 is negative"),
        ("minute,requests\n1998-06-30,4\n1998-06-30 00:01,2\n", ""),
    ):
        if body is not None:
            rates.write_text(body)
        verdict = operator.post(VALIDATE, {"spec": spec}).json()
        assert paths(verdict) == (["operators[0].params.arrivals"] if message else [])
        assert not message or message in verdict["problems"][0]["message"]
    asked = {"pipeline": "top-pages", "arrivals": str(rates)}
    assert operator.post(VALIDATE, {**asked, "speedup": 60}).json()["valid"]
    (problem,) = operator.post(VALIDATE, {**asked, "speedup": 0}).json()["problems"]
    assert problem["message"] == "speedup must be a number from 0.01 to 10000, not 0.0"
    params |= {"rate": 1, "speedup": 10_000}
    verdict = operator.post(VALIDATE, {"spec": spec}).json()
    assert "at 1 per second nothing would arrive" in verdict["problems"][0]["message"]


def test_speeds_of_traffic_are_looked_at_too(operator: APIClient, tmp_path: Path) -> None:
    speeds = tmp_path / "speeds.csv"
    sources = [
        index
        for index, one in enumerate(pipeline_read("traffic-incidents")["operators"])
        if not one.get("inputs")
    ]
    for body, message in (("a,b\n1,x\n", "line 2: 'x' is no number. Give a CSV file"), ("a,b\n1,2\n", "")):
        speeds.write_text(body)
        verdict = operator.post(VALIDATE, {"pipeline": "traffic-incidents", "input": str(speeds)}).json()
        assert paths(verdict) == [f"operators[{index}].params.path" for index in sources if message]
        assert not message or message in verdict["problems"][0]["message"]
    assert operator.post(VALIDATE, {"pipeline": "traffic-incidents", "rate": 20_000}).json()["valid"]


def test_what_is_no_specification_at_all(operator: APIClient) -> None:
    def verdict(body: dict[str, Any]) -> dict[str, Any]:
        answer = operator.post(VALIDATE, body)
        assert answer.status_code == 200
        return dict(answer.json())

    assert paths(verdict({"spec": "a: [unclosed"})) == ["line 2, column 1"]
    assert paths(verdict({"spec": {}})) == ["name", "operators"]
    assert paths(verdict({"spec": {**spec_of(), "name": "validate"}})) == ["name"]
    assert paths(verdict({"pipeline": "nope"})) == ["pipeline"]
    for body in ({}, {"spec": {}, "pipeline": "hashtags"}, {"pipeline": "hashtags", "rate": 0}):
        assert operator.post(VALIDATE, body).status_code == 400


def test_yaml_is_a_body_of_its_own(operator: APIClient) -> None:
    text = yaml.safe_dump(spec_of())

    def send(method: str, path: str, query: str = "") -> Any:
        url = f"/api/v1/topologies/{path}?{query}"
        return operator.generic(method, url, text, content_type="application/yaml")

    assert send("POST", "validate/", "name=other").json()["topology"]["name"] == "other"
    refused = send("POST", "")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (400, "reason")
    made = send("POST", "", "reason=because&rate=7&name=mine")
    assert (made.status_code, made.json()["name"]) == (201, "mine")
    assert made.json()["spec"]["operators"][0]["params"]["rate"] == 7
    assert AuditEntry.objects.get().reason == "because"


BOMB = merge_keys(6, 8)
"""358 bytes; its largest mapping is made of a million pairs."""


@pytest.mark.parametrize(("method", "path"), [("post", ""), ("post", "validate/"), ("put", "counts/")])
@pytest.mark.parametrize("as_yaml", [True, False])
def test_rest_takes_no_text_that_stands_for_too_much(
    operator: APIClient, topology: Topology, method: str, path: str, as_yaml: bool
) -> None:
    address = f"/api/v1/topologies/{path}"
    why = {} if path == "validate/" else WHY
    if as_yaml:
        answer = operator.generic(
            method,
            f"{address}?{urlencode(why)}",
            BOMB,
            content_type="application/yaml",
            headers={"If-Match": "*"},
        )
    else:
        answer = getattr(operator, method)(address, {"spec": BOMB, **why}, headers={"If-Match": "*"})
    said = answer.json()
    problems = said["problems"] if path == "validate/" else said["errors"]
    assert "aliases and merge keys included" in problems[0]["message"]
    assert answer.status_code == (200 if path == "validate/" else 400)


def test_the_admin_site_takes_no_text_that_stands_for_too_much(db: None) -> None:
    browser = Client()
    browser.force_login(user_of("operator"))
    answer = browser.post("/admin/topologies/topology/add/", {"specification": BOMB, **WHY})
    assert "aliases and merge keys included" in answer.content.decode()
    assert not Topology.objects.exists()


@pytest.mark.parametrize("command", ["validate", "deploy"])
def test_the_commands_take_no_text_that_stands_for_too_much(db: None, tmp_path: Path, command: str) -> None:
    file = tmp_path / "bomb.yaml"
    file.write_text(BOMB, encoding="utf-8")
    with pytest.raises(CommandError, match="aliases and merge keys included"):
        call_command(command, str(file))


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/hostname", "README.md", "hashtags.yaml", "~"])
def test_a_pipeline_names_no_file_of_the_server(operator: APIClient, name: str) -> None:
    answer = operator.post("/api/v1/topologies/", {"pipeline": name, **WHY})
    assert answer.status_code == 400
    assert "there is no pipeline" in answer.json()["errors"][0]["message"]


def test_the_command_says_the_same(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(yaml.safe_dump(spec_of()), encoding="utf-8")
    spec = spec_of()
    spec["operators"][2] |= {"kind": "nonsense", "priority": 11}
    bad.write_text(yaml.safe_dump(spec), encoding="utf-8")
    out = StringIO()
    call_command("validate", str(good), stdout=out)
    assert out.getvalue().strip() == "counts is valid: 7 partitions, 3 queries"
    with pytest.raises(CommandError, match=r"(?s)operators\[2\].priority.*operators\[2\].kind"):
        call_command("validate", str(bad))
    with pytest.raises(CommandError, match="no pipeline and no file"):
        call_command("validate", "nope")
