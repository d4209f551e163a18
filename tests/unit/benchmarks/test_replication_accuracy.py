"""The accuracy half of `benchmarks.replication`: its engine, what it measures, and what it judges."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from benchmarks.replication import accuracy as measuring
from benchmarks.replication.accuracy import PLANNERS, Point, Trial, errors_counted, errors_of, judged, planned
from benchmarks.replication.drawing import draw
from benchmarks.replication.objectives import CARRIED, IC, OF, TUPLES, fidelity, without_joins
from benchmarks.replication.one_process import BEGIN
from benchmarks.replication.queries import Query, accuracy, counted, queries, windows_of
from benchmarks.runner import Report, Session, save
from spark_jobs.sinks.parquet import output_table
from tests.outputs import read_outputs
from tests.unit.controlplane.verification.small_engine import run_as_planned

PAGES = Query("Q1", "top-pages", 60, "generated", {"rate": 100})
TRAFFIC = Query("Q2", "traffic-incidents", 300, "generated", {"users": 1_000, "segments": 30, "rate": 150})


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trial]:
    return {
        query.name: Trial(query, tmp_path_factory.mktemp(query.name), windows=2) for query in (PAGES, TRAFFIC)
    }


@pytest.mark.parametrize("name", ["Q1", "Q2"])
def test_the_complete_run_is_exact(trials: dict[str, Trial], name: str) -> None:
    compared, wrong = trials[name].faults()
    assert compared > 100
    assert wrong == 0
    assert len(trials[name].accurate) == 2


def test_a_partition_that_the_complete_run_lacked_would_be_found(tmp_path: Path) -> None:
    trial = Trial(PAGES, tmp_path, windows=2)
    whole = trial.engine.outputs
    trial.engine.outputs = lambda alive: whole(set(alive) - {"Source[1]"})  # type: ignore[method-assign]
    compared, wrong = trial.faults()
    assert 0 < wrong <= 2 * compared


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("Q1", {"Source[0]", "Regions[1]"}),
        ("Q1", {"Views[2]"}),
        ("Q2", {"Locations[0]", "Locations[2]", "Reports[1]"}),
    ],
)
def test_what_is_left_is_what_an_engine_epoch_by_epoch_gives(
    trials: dict[str, Trial], name: str, lost: set[str], tmp_path: Path
) -> None:
    trial, epochs = trials[name], 80
    run_as_planned(tmp_path, trial.spec, epochs=epochs, clock=float(BEGIN), lost=lost)
    (query,) = trial.topology.queries
    alive = set(trial.topology.partitions) - lost
    tables = [table for table in trial.engine.outputs(alive)[query][:epochs] if table is not None]
    rows = read_outputs(tmp_path / "outputs", trial.topology.name)
    expected = rows.drop_columns(["operator", "partition", "epoch"])
    assert expected.num_rows > 30
    assert output_table(pa.concat_tables(tables)).equals(expected.combine_chunks())


def test_a_join_of_halves_that_do_not_fit_gives_nothing(trials: dict[str, Trial]) -> None:
    engine = trials["Q2"].engine
    alive = set(engine.topology.partitions) - {"Distinct[0]", "Speeds[1]"}
    assert not any(engine.outputs(alive)["Worst[0]"])


def test_a_query_without_its_partition_gives_nothing(trials: dict[str, Trial]) -> None:
    for trial in trials.values():
        (query,) = trial.topology.queries
        alive = set(trial.topology.partitions) - {query}
        assert set(trial.engine.outputs(alive)[query]) == {None}
        assert trial.accuracy(()) == 0.0
        assert trial.accuracy(range(len(trial.model.partitions))) == 1.0


def test_fidelity_does_not_see_that_partitions_of_a_source_are_samples_of_each_other(
    trials: dict[str, Trial],
) -> None:
    trial = trials["Q2"]
    lost = {trial.model.index[name] for name in ("Locations[1]", "Locations[3]")}
    plan = set(range(len(trial.model.partitions))) - lost
    assert fidelity(trial.model, plan) == pytest.approx(0.5, abs=0.01)
    assert trial.accuracy(plan) > 0.9


def test_rates_are_those_of_the_complete_run(trials: dict[str, Trial]) -> None:
    pages, traffic = trials["Q1"].measured, trials["Q2"].measured
    assert sum(pages.rates[f"Source[{index}]"] for index in range(4)) == pytest.approx(100)
    assert pages.rates["Source[0]"] != pages.rates["Source[1]"], "servers have other numbers of views"
    assert pages.rates["Top[0]"] == pytest.approx(100 / 10)
    assert pages.flows == {}, "no partition can choose"
    assert sum(traffic.rates[f"Locations[{index}]"] for index in range(4)) == pytest.approx(150)
    assert traffic.flows.keys() == {f"Locations[{index}]" for index in range(4)} | {
        "Reports[0]",
        "Reports[1]",
    }
    for source, by_target in traffic.flows.items():
        (flow,) = by_target.values()
        assert len(flow) == 2
        assert sum(flow) == pytest.approx(traffic.rates[source])


def test_internal_completeness_takes_joins_for_unions(trials: dict[str, Trial]) -> None:
    trial = trials["Q2"]
    assert any(one.correlated for one in trial.topology.operators)
    assert not any(one.correlated for one in without_joins(trial.topology).operators)
    everything = set(range(len(trial.model.partitions)))
    reports = {trial.model.index[f"Reports[{index}]"] for index in range(2)}
    flags = trial.model.flags([everything - reports])
    assert float(trial.model.fidelity(flags)[0]) == 0.0
    assert float(trial.objectives[IC].fidelity(flags)[0]) > 0.3
    assert trial.accuracy(everything - reports) == 0.0


def test_points_of_a_query_without_joins_are_equal(trials: dict[str, Trial]) -> None:
    trial = trials["Q1"]
    points = [trial.point(budget) for budget in (3, 7, 12)]
    assert [point.promised[OF] for point in points] == [0.0, 0.25, 0.5]
    assert [point.accuracy[OF] > 0 for point in points] == [False, True, True]
    assert points[2].counted[OF] == pytest.approx(0.5, abs=0.1)
    (criterion,) = judged(PAGES, trial.topology, points, errors_of(points))
    assert (criterion.value, criterion.holds) == (0, True)
    for planner in PLANNERS:
        mine = trial.planned(planner, 12)
        assert mine.fidelity is not None
        assert mine.accuracy is not None
        assert (mine.fidelity > 0) == (mine.accuracy > 0)


def test_all_tuples_are_those_of_completeness(trials: dict[str, Trial]) -> None:
    for trial in trials.values():
        flags = np.random.default_rng(3).random((50, len(trial.model.partitions))) < 0.7
        assert trial.objectives[TUPLES].fidelity(flags) == pytest.approx(trial.model.completeness(flags))
        plan = planned("structure_aware", trial.objectives[TUPLES], 4)
        assert plan is not None
        assert fidelity(trial.objectives[TUPLES], plan) > 0.1
        assert fidelity(trial.model, plan) == 0.0


def test_what_partitions_carry_is_what_they_read_of_the_sources(trials: dict[str, Trial]) -> None:
    pages, traffic = (trials[name].objectives[CARRIED] for name in ("Q1", "Q2"))
    views = [trials["Q1"].measured.rates[f"Source[{index}]"] for index in range(4)]
    lists = [pages.rates[pages.index[f"Servers[{index}]"]] for index in range(4)]
    assert lists == pytest.approx(views)
    assert pages.rates[pages.index["Regions[0]"]] == pytest.approx(views[0] + views[1])
    flows = trials["Q2"].measured.flows
    speeds = sum(flows[f"Locations[{index}]"]["Speeds"][1] for index in range(4))
    assert traffic.rates[traffic.index["Congestion[1]"]] == pytest.approx(speeds)
    reports = sum(trials["Q2"].measured.rates[f"Reports[{index}]"] for index in range(2))
    assert traffic.rates[traffic.index["Worst[0]"]] == pytest.approx(150 + reports)
    assert trials["Q1"].point(12).promised[CARRIED] == pytest.approx(
        trials["Q1"].point(12).counted[CARRIED], abs=0.03
    )


def point(of: float, accurate: float, ic: float) -> Point:
    nothing = dict.fromkeys((IC, TUPLES, CARRIED), 0.0)
    return Point(
        9, {OF: of, IC: ic, TUPLES: 0.5, CARRIED: 0.0}, {OF: accurate, **nothing}, {OF: 0.1, **nothing}
    )


@pytest.mark.parametrize(("accurate", "holds"), [(0.5, [True, True]), (0.6, [False, True])])
def test_with_a_join_the_error_of_fidelity_is_at_most_half(
    trials: dict[str, Trial], accurate: float, holds: list[bool]
) -> None:
    points = [point(0.4, accurate, 0.2)]
    errors = errors_of(points)
    assert errors == {OF: pytest.approx(accurate - 0.4), IC: 0.2, TUPLES: 0.5, CARRIED: 0.0}
    assert errors_counted(points) == {OF: pytest.approx(0.3), IC: 0.2, TUPLES: 0.5, CARRIED: 0.0}
    assert [one.holds for one in judged(TRAFFIC, trials["Q2"].topology, points, errors)] == holds


def test_where_completeness_does_not_err_either_nothing_was_shown(trials: dict[str, Trial]) -> None:
    points = [point(0.0, 0.0, 0.0)]
    assert not judged(TRAFFIC, trials["Q2"].topology, points, errors_of(points))[0].holds


def test_without_a_join_fidelity_and_completeness_must_be_equal(trials: dict[str, Trial]) -> None:
    points = [point(0.0, 0.0, 0.0), point(0.1, 0.0, 0.0), point(0.0, 0.1, 0.0)]
    (criterion,) = judged(PAGES, trials["Q1"].topology, points, errors_of(points))
    assert (criterion.value, criterion.holds) == (2, False)


def rows(*given: tuple[int, str, int]) -> pa.Table:
    """Rows of windows of a minute, by their ends in seconds after `BEGIN`."""
    ends = [(BEGIN + end) * 1_000_000 for end, _, _ in given]
    return pa.table(
        {
            "window_start": [end - 60_000_000 for end in ends],
            "window_end": ends,
            "key": [key for _, key, _ in given],
            "count": [count for _, _, count in given],
        }
    )


def test_accuracy_is_of_whole_windows() -> None:
    whole = windows_of(
        [None, rows((57, "a", 9), (67, "a", 6), (67, "b", 2)), rows((77, "c", 4), (77, "d", 4))]
    )
    assert whole == {BEGIN + 67: {"a": 6, "b": 2}, BEGIN + 77: {"c": 4, "d": 4}}
    less = windows_of(
        [rows((57, "a", 9)), None, rows((67, "a", 3), (67, "x", 5), (77, "c", 5), (77, "d", 1))]
    )
    assert accuracy(less, whole) == (1 / 2 + 2 / 2) / 2
    assert counted(less, whole) == pytest.approx((3 / 8 + 5 / 8) / 2)
    assert (accuracy({}, whole), counted({}, whole)) == (0.0, 0.0)


@pytest.mark.parametrize("measure", [accuracy, counted])
def test_nothing_to_compare_with_is_an_error(measure: Any) -> None:
    with pytest.raises(ValueError, match="no output in any whole window"):
        measure({}, windows_of([rows((57, "a", 9)), None]))


def test_real_data_are_read_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESURGE_TEST_DATA", raising=False)
    assert [(query.name, query.source) for query in queries()] == [("Q1", {}), ("Q2", {})]
    monkeypatch.setenv("RESURGE_TEST_DATA", str(tmp_path))
    assert [query.source for query in queries()] == [{}, {}]
    for name in ("page_clicks.parquet", "wc98_june30_requests_per_minute.csv", "metr_la_los_speed.csv.gz"):
        (tmp_path / name).touch()
    first, second, third = queries()
    assert (first.source["path"], second.source) == (str(tmp_path / "page_clicks.parquet"), {})
    assert third.source == {"path": str(tmp_path / "metr_la_los_speed.csv.gz")}
    sources = [one["params"] for one in third.spec()["operators"] if one["kind"] == "source"]
    assert {one["path"] for one in sources} == {third.source["path"]}
    assert {one["stream"] for one in sources} == {"locations", "incidents"}


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "queries", lambda: [PAGES])
    monkeypatch.setattr(measuring, "QUICK_WINDOWS", 2)


@pytest.mark.usefixtures("_small")
def test_it_reports_and_is_drawn(tmp_path: Path) -> None:
    report = Report()
    measuring.accuracy_of_plans(Session(quick=True, console=Console(file=io.StringIO())), report)
    assert [criterion.holds for criterion in report.criteria] == [True] * 3
    assert len(report.tables) == 2
    save(draw(report.results), tmp_path / "drawn.svg")
    assert "12, Q1" in (tmp_path / "drawn.svg").read_text()


@pytest.mark.usefixtures("_small")
def test_it_fails_where_no_row_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trial, "faults", lambda self: (0, 0))
    report = Report()
    measuring.accuracy_of_plans(Session(quick=True, console=Console(file=io.StringIO())), report)
    assert [criterion.holds for criterion in report.criteria] == [False, True, True]
