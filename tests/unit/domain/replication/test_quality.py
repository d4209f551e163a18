"""The planners on random topologies of every kind, against the best of all sets of partitions.

A sample; `benchmarks.replication` draws a thousand topologies of each kind, and larger ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from benchmarks.replication.cases import Recipe, drawn, models
from benchmarks.replication.exact import best_fidelities
from domain.replication import FidelityModel, ReplicationProblem, TooLargeError, replication_planner_named
from domain.replication.optimal import Optimal
from domain.replication.planner import Choice
from tests.examples import examples

RECIPES = [
    Recipe(structure=structure, joins=joins)
    for structure in ("structured", "full", "general")
    for joins in (0.0, None)
]
TOPOLOGIES = examples(36)


def named(recipe: Recipe) -> str:
    return f"{recipe.structure} {'without' if recipe.joins == 0 else 'with'} joins"


def fidelity_of(model: FidelityModel, choice: Choice) -> float:
    return float(model.fidelity(model.flags([frozenset().union(*choice.steps)]))[0])


def plans(recipe: Recipe, count: int) -> Iterator[tuple[FidelityModel, int, float]]:
    """Topologies with every budget with which there is any output, and the best fidelity."""
    for model in models(recipe, count):
        best = best_fidelities(model)
        yield from ((model, budget, best[budget]) for budget in range(1, len(best) - 1) if best[budget] > 0)


@pytest.mark.parametrize("recipe", RECIPES, ids=named)
def test_structure_aware_is_near_the_optimum_and_never_below_greedy(recipe: Recipe) -> None:
    planner, greedy = (replication_planner_named(name) for name in ("structure_aware", "greedy"))
    reached = []
    for model, budget, best in plans(recipe, TOPOLOGIES):
        choice = planner.choose(model, budget)
        assert sum(map(len, choice.steps)) == len(frozenset().union(*choice.steps)) <= budget
        found = fidelity_of(model, choice)
        assert found >= fidelity_of(model, greedy.choose(model, budget)) - 1e-9
        reached.append(found / best)
    assert min(reached) >= 0.9
    assert sum(reached) / len(reached) >= 0.99


def flowing(model: FidelityModel, seed: int) -> FidelityModel:
    """The same where it is measured how each partition divides what it gives: a few keys carry most of it."""
    rng = random.Random(seed)
    topology = model.topology
    flows: dict[str, dict[str, list[float]]] = {}
    for own in topology.operators:
        for stream in own.inputs:
            for index in range(topology.by_name[stream.source].parallelism):
                count = len(topology.targets(stream, own, index))
                to = flows.setdefault(f"{stream.source}[{index}]", {})
                to[own.name] = [rng.paretovariate(0.7) for _ in range(count)]
    rates = dict(zip(model.partitions, model.rates.tolist(), strict=True))
    return FidelityModel(topology, rates, flows=flows)


@pytest.mark.parametrize("recipe", RECIPES, ids=named)
def test_with_measured_pairs_all_planners_agree_on_the_model(recipe: Recipe) -> None:
    planner, greedy, exact = (
        replication_planner_named(name) for name in ("structure_aware", "greedy", "dynamic_programming")
    )
    reached, compared = [], 0
    for seed, drawn_model in enumerate(models(recipe, TOPOLOGIES // 2)):
        model = flowing(drawn_model, seed)
        best = best_fidelities(model)
        for budget in (one for one in range(1, len(best) - 1) if best[one] > 0):
            found = fidelity_of(model, planner.choose(model, budget))
            assert found >= fidelity_of(model, greedy.choose(model, budget)) - 1e-9
            with suppress(TooLargeError):
                proven = fidelity_of(model, exact.choose(model, budget))
                assert proven == pytest.approx(best[budget], abs=1e-9)
                compared += 1
            reached.append(found / best[budget])
        half = len(best) // 2
        choice = Optimal(time_limit=60.0).choose(model, half)
        assert choice.proven
        assert fidelity_of(model, choice) == pytest.approx(best[half], abs=1e-6)
    assert compared > len(reached) / 3
    assert min(reached) >= 0.9
    assert sum(reached) / len(reached) >= 0.99


@pytest.mark.parametrize(
    ("recipe", "seed", "budget"),
    [
        # Nothing was chosen: what the inputs of a join share was counted twice.
        (Recipe(structure="structured", joins=None), 72, 6),
        (Recipe(structure="general", joins=None), 814, 3),
        # The densest extension does not fit, and others that do were passed over.
        (Recipe(structure="structured"), 256, 3),
        (Recipe(structure="full"), 889, 4),
        # Two chains give the same at first.
        (Recipe(structure="structured"), 889, 3),
    ],
)
def test_plans_that_were_poor(recipe: Recipe, seed: int, budget: int) -> None:
    model = drawn(recipe, seed)
    choice = replication_planner_named("structure_aware").choose(model, budget)
    assert fidelity_of(model, choice) == pytest.approx(best_fidelities(model)[budget])


@pytest.mark.parametrize("recipe", RECIPES, ids=named)
def test_optimal_is_proven_and_optimal(recipe: Recipe) -> None:
    """Also with joins, of which the program has exact copies."""
    planner = Optimal(time_limit=60.0)
    for model, budget, best in plans(recipe, 5):
        choice = planner.choose(model, budget)
        assert choice.proven
        assert fidelity_of(model, choice) == pytest.approx(best, abs=1e-6)


def test_a_program_that_is_too_large_bounds_joins() -> None:
    """Each join is bounded by its scarcest input: nothing that is proven is wrong, and the gap is stated."""
    gaps = []
    for model, budget, best in plans(Recipe(structure="general", joins=None), 8):
        rates = dict(zip(model.partitions, model.rates.tolist(), strict=True))
        plan = Optimal(time_limit=60.0, columns=0).plan(ReplicationProblem(model.topology, rates, budget))
        assert plan.bound is not None
        assert plan.gap is not None
        assert plan.gap == pytest.approx(plan.bound - plan.fidelity_after, abs=1e-9)
        assert plan.fidelity_after <= best + 1e-9 <= plan.bound + 2e-6
        if not plan.proven:
            gaps.append(plan.gap)
            assert "too many joins of joins" in plan.note
    assert gaps
    assert min(gaps) > 0


def test_a_search_that_is_cut_short_says_how_far_it_is() -> None:
    model = drawn(Recipe(structure="general", joins=None, width=(1, 30), partitions=(100, 140)), 3)
    rates = dict(zip(model.partitions, model.rates.tolist(), strict=True))
    problem = ReplicationProblem(model.topology, rates, 40)
    plan = Optimal(time_limit=0.0).plan(problem)
    first = replication_planner_named("structure_aware").plan(problem)
    assert plan.fidelity_after >= first.fidelity_after
    assert not plan.proven
    assert plan.gap is not None
    assert plan.gap > 0
    assert "no plan keeps more than" in plan.note
    assert first.bound is first.gap is None


def test_a_thousand_partitions() -> None:
    """A single tree of them gives less than the digits to which fidelities are rounded."""
    recipe = Recipe(structure="full", joins=None, operators=(6, 20), width=(20, 200), partitions=(900, 1_000))
    model = drawn(recipe, 1)
    budget = len(model.partitions) // 2
    found, greedy = (
        fidelity_of(model, replication_planner_named(name).choose(model, budget))
        for name in ("structure_aware", "greedy")
    )
    assert found >= greedy > 0
