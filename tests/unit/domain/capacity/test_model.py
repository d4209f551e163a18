"""Learning what work costs: on work whose cost is known."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.capacity import CpuModel, CpuShares, Work

TRUE = CpuShares(fixed=0.02, per_task=0.006, per_cpu_second=1.5, per_tuple=5e-7)


def windows(
    count: int, *, seed: int = 1, noise: float = 0.05, true: CpuShares = TRUE
) -> Iterator[tuple[Work, float]]:
    """Nodes with different partitions, sometimes with fewer jobs; measurements are some percent wrong."""
    chance = random.Random(seed)
    for _ in range(count):
        work = Work(
            tasks=chance.choice((2.5, 5.0, 5.0, 5.0)),
            operators=chance.uniform(0.01, 0.3),
            tuples=chance.uniform(0.0, 5e4),
        )
        yield work, true.of(work) * chance.gauss(1.0, noise)


def taught(*parts: Iterable[tuple[Work, float]], nodes: int = 5) -> CpuModel:
    """A model that learns from these windows, ten seconds and `nodes` windows at a time."""
    model, at = CpuModel(), 0.0
    for part in parts:
        waiting = list(part)
        while waiting:
            at += 10.0
            model.learn(waiting[:nodes], at=at)
            del waiting[:nodes]
    return model


def test_the_shares_are_found_where_measurements_tell_them_apart() -> None:
    model = taught(windows(200))
    assert model.windows == 200
    assert model.shares.fixed == pytest.approx(TRUE.fixed, abs=0.01)
    assert model.shares.per_task == pytest.approx(TRUE.per_task, abs=0.002)
    assert model.shares.per_cpu_second == pytest.approx(TRUE.per_cpu_second, rel=0.1)
    assert model.shares.per_tuple == pytest.approx(TRUE.per_tuple, rel=0.3)


@pytest.mark.parametrize("seed", range(20))
def test_a_node_is_predicted_within_fifteen_percent_after_twenty_windows(seed: int) -> None:
    model = taught(windows(20, seed=seed))
    errors = [abs(model.shares.of(work) / cores - 1.0) for work, cores in windows(100, seed=-seed, noise=0.0)]
    assert sum(error < 0.15 for error in errors) >= 90, sorted(errors)[-12:]


def test_work_that_always_comes_together_is_still_predicted() -> None:
    """One node, steady work: which share takes what cannot be told apart, the sum can."""
    chance = random.Random(3)
    steady = [chance.uniform(0.04, 0.06) for _ in range(100)]
    model = taught([(Work(5.0, each, each * 1e6), 0.05 + 1.8 * each) for each in steady], nodes=1)
    assert model.shares.of(Work(5.0, 0.05, 5e4)) == pytest.approx(0.14, rel=0.03)
    # Twice the partitions: the prior keeps the guess within reason.
    assert model.shares.of(Work(5.0, 0.10, 1e5)) == pytest.approx(0.23, rel=0.15)


def test_before_anything_is_learned_the_prior_counts() -> None:
    model = CpuModel()
    assert model.windows == 0
    assert model.shares == CpuShares()
    assert model.node == CpuShares().fixed


def test_what_was_learned_minutes_ago_is_forgotten() -> None:
    """A virtual machine that has just started needs several times what it needs later."""
    cold = CpuShares(fixed=0.1, per_task=0.02, per_cpu_second=3.0, per_tuple=0.0)
    model = taught(windows(50, true=cold), windows(150))
    work = Work(5.0, 0.1, 1e4)
    assert model.shares.of(work) == pytest.approx(TRUE.of(work), rel=0.1)


@given(
    st.lists(
        st.tuples(st.floats(0, 50), st.floats(0, 4), st.floats(0, 1e6), st.floats(0, 8)),
        max_size=30,
    )
)
def test_no_share_is_ever_less_than_it_can_be(measured: list[tuple[float, float, float, float]]) -> None:
    model = taught((Work(tasks, operators, tuples), cores) for tasks, operators, tuples, cores in measured)
    shares = model.shares
    assert min(shares.fixed, shares.per_task, shares.per_tuple) >= 0.0
    assert shares.per_cpu_second >= 1.0


def test_a_stored_model_goes_on_where_it_stopped() -> None:
    whole, first = CpuModel(), CpuModel()
    measured = list(windows(60))
    for at in (10.0, 20.0):
        whole.learn(measured[:30], at=at)
        first.learn(measured[:30], at=at)
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(first)), CpuModel)
    again.learn(measured[30:], at=30.0)
    whole.learn(measured[30:], at=30.0)
    assert again == whole


@pytest.mark.parametrize("damage", [{"moment": [1.0]}, {"normal": [[1.0]]}, {"normal": []}])
def test_a_damaged_model_is_recognised(damage: dict[str, object]) -> None:
    stored = {**msgspec.to_builtins(CpuModel()), **damage}
    assert not msgspec.convert(stored, CpuModel).readable


def test_a_thousand_nodes_do_not_forget_sooner() -> None:
    few, many = taught(windows(100), nodes=5), taught(windows(20_000), nodes=1000)
    work = Work(5.0, 0.1, 1e4)
    assert abs(many.shares.of(work) - TRUE.of(work)) < abs(few.shares.of(work) - TRUE.of(work)) + 0.001
