"""The random topologies of `benchmarks.replication`, its yardstick, and its drawing."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.replication.cases import Recipe, drawn, models
from benchmarks.replication.drawing import draw
from benchmarks.replication.exact import best_fidelities
from benchmarks.replication.figures import DRAWN, RATIOS, SETTINGS, queries_of_the_paper
from benchmarks.replication.quality import KINDS, quality_of
from benchmarks.runner import Report, Session, save
from domain.replication import structure_of


@pytest.mark.parametrize("kind", KINDS)
def test_topologies_are_of_their_kind(kind: str) -> None:
    recipe = KINDS[kind]
    found = list(models(recipe, 30))
    for model in found:
        assert 4 <= len(model.partitions) <= 13
        assert structure_of(model.topology) == recipe.structure
        assert any(model.correlated) == (recipe.joins is None)
    assert any(len(model.topology.sources) > 1 for model in found)
    assert any(len(model.topology.outputs) > 1 for model in found)
    assert drawn(recipe, 7).rates.tolist() == found[7].rates.tolist()


def test_a_setting_of_the_paper_has_one_sink_and_no_priorities() -> None:
    for recipe in SETTINGS.values():
        model = drawn(recipe, 0)
        assert len(model.topology.outputs) == 1
        assert model.weights.tolist() == model.plain_weights.tolist()


def test_the_yardstick_looks_at_every_set() -> None:
    model = drawn(Recipe(structure="general", joins=None, partitions=(4, 8)), 2)
    count = len(model.partitions)
    best = best_fidelities(model)
    for budget in range(count + 1):
        plans = [plan for size in range(budget + 1) for plan in itertools.combinations(range(count), size)]
        assert best[budget] == model.fidelity(model.flags(plans)).max()


def test_quality_is_of_all_plans() -> None:
    quality = quality_of([1.0] * 19 + [0.5])
    assert (quality.plans, quality.mean, quality.worst, quality.reached) == (20, 0.975, 0.5, 0.95)


def test_figures_are_drawn(tmp_path: Path) -> None:
    report = Report()
    queries_of_the_paper(Session(quick=True, console=Console(file=io.StringIO())), report)
    assert all(criterion.holds for criterion in report.criteria)
    curves = {name: [0.5] * len(RATIOS) for name in DRAWN}
    report.results["figure_14"] = {"ratios": RATIOS, "settings": dict.fromkeys(SETTINGS, curves)}
    save(draw(report.results), tmp_path / "drawn.svg")
    assert "14(d)" in (tmp_path / "drawn.svg").read_text()
