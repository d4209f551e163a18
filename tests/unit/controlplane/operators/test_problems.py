"""The problems of an operator over REST: which they are, and the rows that caused them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.operators.refused_rows import Prepared, TopologyFiles
from controlplane.topologies.models import Problem, Topology
from controlplane.topologies.problems import LONGEST, problem_record, row_read
from domain.messages import ProblemReport
from spark_jobs.sources.problems import CUT
from tests.unit.controlplane.conftest import client_of

PATH = "/api/v1/topologies/counts/operators/{}/problems/"


@pytest.fixture
def home(topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        settings, "RESURGE", replace(settings.RESURGE, home=tmp_path, mask_columns=("secret",))
    )
    (tmp_path / "topologies" / "counts").mkdir(parents=True)
    return tmp_path / "topologies" / "counts"


@pytest.fixture
def operator(home: Path) -> APIClient:
    return client_of("operator")


def problem(where: str, what: str = "it fails", **fields: Any) -> Problem:
    row = Topology.objects.get(name="counts")
    return Problem.objects.create(topology=row, at=timezone.now(), where=where, what=what, **fields)


def told(operator: APIClient, name: str = "O0") -> list[dict[str, Any]]:
    answer = operator.get(PATH.format(name))
    assert answer.status_code == 200, answer.json()
    found: list[dict[str, Any]] = answer.json()
    return found


def test_those_that_concern_it(operator: APIClient, home: Path) -> None:
    own = ["O0", "O0[1]", "replica of O0[0]", "O0[1]: a.csv, row 7"]
    for where in (
        *own,
        "o0[1]",
        "O01[0]",
        "O1[0]",
        "replica of O1[0]",
        "Spark job",
        "O0[1] and others",
        "o0: x",
        "O0 and others",
        "/a.csv",
    ):
        problem(where)
    assert sorted(one["where"] for one in told(operator)) == sorted(own)
    assert {one["known"] for one in told(operator)} == {"It is not known which row caused it."}
    Problem.objects.update(topology=None)
    assert told(operator) == []


def test_a_row_is_kept_masked(operator: APIClient, home: Path) -> None:
    row = json.dumps({"ts": 7, "text": "bad", "secret": "s3cret", "none": None})
    report = ProblemReport(topology="counts", where="O0[0]", what="it fails", row=row)
    problem_record(report=report)
    assert Problem.objects.get().row == {"ts": 7, "text": "bad", "secret": "•••", "none": None}
    problem_record(report=replace_row(report, ""))
    (one,) = told(operator)
    assert (one["row"]["text"], one["count"]) == ("bad", 2), "a repetition without a row takes none away"
    assert one["known"].startswith("The operator fails in the same way")
    settings.RESURGE = replace(settings.RESURGE, mask_columns=("text",))
    assert told(operator)[0]["row"]["text"] == "•••", "what is masked later is not shown, either"


def replace_row(report: ProblemReport, row: str) -> ProblemReport:
    return ProblemReport(topology=report.topology, where=report.where, what=report.what, row=row)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "{",
        '{"a": {"b": 1}}',
        '{"a": "\\u0000"}',
        json.dumps({"a": "x" * LONGEST}),
        '{"a": 1e999}',
    ],
)
def test_what_is_no_row_is_not_kept(text: str) -> None:
    assert row_read(text, ()) is None


def test_rows_are_shown_to_operators_only(home: Path) -> None:
    kept = problem("O0[0]", row={"text": "bad row"})
    viewer = client_of("viewer")
    assert viewer.get(PATH.format("O0")).status_code == 403
    for path in (
        f"/api/v1/problems/{kept.pk}/",
        "/api/v1/problems/",
        "/api/v1/topologies/counts/problems/",
        "/api/v1/snapshot/",
    ):
        answer = viewer.get(path)
        assert answer.status_code == 200
        assert "it fails" in answer.content.decode()
        assert "bad row" not in answer.content.decode(), path


def test_rows_of_the_input_that_were_not_used(operator: APIClient, home: Path) -> None:
    lines = [{"row": number, "reason": "the text is null"} for number in range(30)]
    listed = home / "input.rejected.jsonl"
    listed.write_text("broken\n" + "".join(json.dumps(line) + "\n" for line in lines))
    facts = {"source": "/data/a.csv", "path": "/x/input.arrow", "rejected_path": f"/x/{listed.name}"}
    (home / "input.json").write_text(json.dumps(facts))
    problem("/data/a.csv", "30 of 100 rows are treated as having no text (30 times: the text is null)")
    problem("/x/input.arrow", "the copy of the input was damaged")
    problem("/data/b.csv")
    found = {one["where"]: one for one in told(operator, "Source")}
    assert set(found) == {"/data/a.csv", "/x/input.arrow"}
    rows = found["/data/a.csv"]["rows"]
    assert (len(rows), rows[0]) == (10, "row 0: the text is null")
    assert found["/data/a.csv"]["known"].startswith("Rows of /data/a.csv that are not used")
    listed.unlink()
    away = next(one for one in told(operator, "Source") if one["where"] == "/data/a.csv")
    assert (away["rows"], "not on this one" in away["known"]) == ([], True)
    assert told(operator, "Parser") == []


def test_rows_of_each_of_several_inputs(home: Path) -> None:
    for name in "AB":
        (home / f"{name}.rejected.jsonl").write_text(json.dumps({"row": 1, "reason": f"of {name}"}))
        facts = {"source": f"/{name}.csv", "rejected_path": str(home / f"{name}.rejected.jsonl")}
        (home / f"{name}.json").write_text(json.dumps(facts))
    files = TopologyFiles(home.parents[1], "counts")
    found = [files.prepared(name, only=False) for name in "ABC"]
    assert found[2] is None
    assert [files.rejected(one) for one in found if one] == [["row 1: of A"], ["row 1: of B"]]
    assert files.rejected(Prepared(source="/x", rejected_path="../../secret")) == []


def test_rows_that_came_too_late(operator: APIClient, home: Path) -> None:
    lines = [
        {"partition": "Source[1]", "epoch": 3, "row": 4, "ts": 5, "watermark": 9},
        {"partition": "Source[0]", "epoch": 3, "row": 5, "ts": None, "watermark": 9},
        {"partition": "Other[0]", "epoch": 3, "row": 5, "ts": 1, "watermark": 9},
    ]
    (home / "late.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    problem("Source", CUT)
    (one,) = told(operator, "Source")
    assert one["rows"] == [
        "epoch 3 of Source[1]: row 4 of what it read came too late",
        "epoch 3 of Source[0]: row 5 of what it read had no event time",
    ]


def test_what_there_is_not(operator: APIClient) -> None:
    assert operator.get(PATH.format("O9")).status_code == 404
    assert operator.get(f"{PATH.format('O0')}?limit=1").status_code == 400
