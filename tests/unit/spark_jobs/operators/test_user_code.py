"""User code in a specification: SQL, functions, operators; and the catalogue that checks it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from domain.topology import load_topology, load_yaml
from spark_jobs.allowed import NotAllowedError, allowed_object
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.sql import Sql
from spark_jobs.state.tables import StateTables

HERE = __name__
ROWS = pa.table({"ts": [1, 2, 3], "key": ["b", "a", "b"]})


def shout(table: pa.Table, mark: str = "!") -> pa.Table:
    return table.set_column(1, "key", pa.array([f"{key}{mark}" for key in table.column("key").to_pylist()]))


def nonsense(table: pa.Table) -> int:
    return table.num_rows


class Counter(Operator):
    kind: ClassVar[str] = "counter"

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return [] if params.get("step", 1) == 1 else ["step must be 1"]

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        state.values["n"] = state.values.get("n", 0) + sum(
            t.num_rows for group in inputs.values() for t in group
        )
        return pa.table({"n": [state.values["n"]]})


@pytest.fixture
def catalogue() -> OperatorCatalogue:
    return OperatorCatalogue((HERE,))


def run(operator: Operator, table: pa.Table = ROWS) -> pa.Table | None:
    return operator.process(EpochContext(1, 0, 0), {"A": [table]}, StateTables({}, {}, {}))


class TestSql:
    def test_the_time_zone_of_the_host_does_not_matter(self) -> None:
        query = "SELECT strftime(to_timestamp(0), '%H:%M') FROM input"
        code = (
            f"import {HERE} as here; print(here.run(here.Sql({{'query': {query!r}}}, ['A'])).columns[0][0])"
        )
        environment = {**os.environ, "TZ": "Asia/Tokyo"}
        ended = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert ended.stdout.strip() == "00:00"

    def test_query_over_the_rows(self) -> None:
        operator = Sql({"query": "SELECT key, count(*) AS n FROM input GROUP BY key ORDER BY key"}, ["A"])
        result = run(operator)
        assert result is not None
        assert result.to_pylist() == [{"key": "a", "n": 1}, {"key": "b", "n": 2}]
        assert run(operator, ROWS.slice(0, 0)) is None

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ("", "query must be a SELECT statement"),
            ("SELEC 1", "query is not SQL"),
            ("SELECT" + " " * 20_000 + "1", "query has 20007 characters; at most 20000 are taken"),
            ("SELECT 1; SELECT 2", "query must be exactly one SELECT statement"),
            ("DROP TABLE input", "query must be exactly one SELECT statement"),
        ],
    )
    def test_bad_queries_are_named(self, query: str, message: str) -> None:
        assert message in Sql.problems({"query": query})[0]

    def test_a_failing_query_says_why_and_what_there_is(self) -> None:
        with pytest.raises(OperatorError, match=r"the query failed: .*nix.*\(input has ts, key\)"):
            run(Sql({"query": "SELECT nix FROM input"}, ["A"]))

    @pytest.mark.parametrize("table", ["read_text('/etc/hostname')", "'/etc/hostname'", "ROWS"])
    def test_it_sees_nothing_but_its_input(self, table: str) -> None:
        with pytest.raises(OperatorError, match="the query failed"):
            run(Sql({"query": "SELECT * FROM " + table}, ["A"]))  # noqa: S608


class TestPython:
    def test_function_with_arguments(self, catalogue: OperatorCatalogue) -> None:
        params = {"function": f"{HERE}.shout", "arguments": {"mark": "?"}}
        assert catalogue.problems("map", params) == []
        result = run(catalogue.create("map", params, ["A"], (HERE,)))
        assert result is not None
        assert result.column("key").to_pylist() == ["b?", "a?", "b?"]

    def test_function_that_returns_no_table(self, catalogue: OperatorCatalogue) -> None:
        with pytest.raises(OperatorError, match="nonsense returned int"):
            run(catalogue.create("map", {"function": f"{HERE}.nonsense"}, ["A"], (HERE,)))

    def test_operator_of_ones_own(self, catalogue: OperatorCatalogue) -> None:
        params: dict[str, Any] = {"class": f"{HERE}.Counter", "params": {"step": 1}}
        assert catalogue.problems("python", params) == []
        result = run(catalogue.create("python", params, ["A"], (HERE,)))
        assert result is not None
        assert result.to_pylist() == [{"n": 3}]
        assert catalogue.problems("python", {**params, "params": {"step": 2}}) == ["step must be 1"]

    @pytest.mark.parametrize(
        ("kind", "params", "message"),
        [
            ("map", {}, "function must be a dotted path, not None"),
            ("map", {"function": "os.system"}, "'os.system' is not in an allowed module"),
            ("map", {"function": f"{HERE}x.shout"}, "is not in an allowed module"),
            ("map", {"function": f"{HERE}.absent"}, "has no 'absent'"),
            ("map", {"function": f"{HERE}.HERE"}, "is not a function"),
            ("map", {"function": f"{HERE}.shout", "arguments": [1]}, "arguments must be a mapping"),
            ("python", {"class": f"{HERE}.shout"}, "is not a subclass of"),
            ("python", {"class": "shout"}, "is not a dotted path"),
        ],
    )
    def test_bad_parameters(
        self, catalogue: OperatorCatalogue, kind: str, params: dict[str, Any], message: str
    ) -> None:
        assert message in catalogue.problems(kind, params)[0]

    def test_nothing_is_imported_before_it_is_allowed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
        monkeypatch.syspath_prepend(str(tmp_path))
        with pytest.raises(NotAllowedError):
            allowed_object("trap.anything", ["spark_jobs.operators"])


def test_catalogue_knows_its_kinds(catalogue: OperatorCatalogue) -> None:
    kinds = catalogue.kinds()
    assert {"source", "flat_map_regex", "sliding_window", "latest", "windowed_join", "sql", "python"} <= set(
        kinds
    )
    assert [kind for kind in kinds if catalogue.is_source(kind)] == ["source"]
    assert catalogue.problems("source", {"rate": 0}) == [
        "rate must be a whole number from 1 to 100000000, not 0"
    ]


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[4] / "spark_jobs" / "pipelines").glob("*.yaml"))
)
def test_ready_made_pipelines_are_valid(path: Path) -> None:
    topology = load_topology(load_yaml(path.read_text(encoding="utf-8")), OperatorCatalogue(()))
    assert topology.name == path.stem
    if path.stem == "hashtags":
        assert len(topology.queries) == 15


def test_the_documented_example_is_valid() -> None:
    text = (Path(__file__).parents[4] / "docs" / "pipelines.md").read_text(encoding="utf-8")
    example = text.partition("```yaml\n")[2].partition("```")[0]
    assert load_topology(load_yaml(example), OperatorCatalogue(())).queries == ["Counts[0]"]
    for kind in OperatorCatalogue(()).kinds():
        assert f"`{kind}`" in text or f"kind: {kind}`" in text


def test_a_function_that_was_added_to_a_module_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Web servers have loaded the module before, to check another pipeline."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "of_a_team.py"
    file.write_text("def first(rows): return rows\n")
    allowed_object("of_a_team.first", ["of_a_team"])
    with pytest.raises(NotAllowedError, match="has no 'second'"):
        allowed_object("of_a_team.second", ["of_a_team"])
    file.write_text("def first(rows): return rows\ndef second(rows): return rows\n")
    assert callable(allowed_object("of_a_team.second", ["of_a_team"]))
    del sys.modules["of_a_team"]
