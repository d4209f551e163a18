"""Replay uses the time that new epochs leave, but always enough to catch up."""

from __future__ import annotations

import pytest

from domain.execution.pace import SHARE, ReplayPace


def learnt(*, base: float, each: float, most: int = 64) -> ReplayPace:
    pace = ReplayPace(interval=1.0, together=8, most=most)
    for _ in range(40):
        pace.observe(seconds=base, working=base - 0.2, replayed=0)
        replayed = pace.beside(1)
        took = base + replayed * each
        pace.observe(seconds=took, working=base - 0.2, replayed=replayed)
    return pace


def test_it_learns_what_an_epoch_costs() -> None:
    pace = learnt(base=0.5, each=0.01)
    assert pace.base == pytest.approx(0.5, rel=0.05)
    assert pace.each == pytest.approx(0.01, rel=0.2)


def test_a_job_gets_longer_by_a_share_of_the_latency_only() -> None:
    pace = learnt(base=0.5, each=0.01)
    assert 0.1 < pace.beside(1) * pace.each <= SHARE * 1.0


def test_replay_is_always_faster_than_the_present() -> None:
    slow = learnt(base=0.5, each=10.0)
    # On nodes with little CPU a job takes as long as several epochs, and works them off together.
    assert [slow.beside(present) for present in (1, 2, 4, 7)] == [2, 3, 5, 9]


def test_queries_that_give_output_come_first_for_a_while() -> None:
    """An epoch takes longer than a job may get longer, so every third job carries one."""
    pace = learnt(base=0.5, each=0.01)
    pace.base, pace.each = 0.5, 0.4
    carried = [pace.beside(1, kept=True) for _ in range(40)]
    assert set(carried) == {0, 1}
    spent = sum(carried) * pace.each / len(carried)
    assert 0.7 * SHARE <= spent <= SHARE, "the share of a latency of one second"


def test_where_epochs_are_cheap_as_many_are_replayed_as_fit() -> None:
    pace = learnt(base=0.5, each=0.01)
    carried = [pace.beside(1, kept=True) for _ in range(20)]
    assert 12 <= min(carried[1:]) <= max(carried) <= 18


def test_nothing_is_saved_up_for_long() -> None:
    pace = learnt(base=0.5, each=0.01)
    pace.base, pace.each = 0.5, 10.0
    for _ in range(100):
        pace.beside(1, kept=True)
    pace.each = 0.05
    assert pace.beside(1, kept=True) <= 13


def test_idle_time_is_used_if_a_job_fits() -> None:
    pace = learnt(base=0.5, each=0.01)
    assert pace.alone(0.4) == 0
    assert 10 < pace.alone(0.8) <= 22
    assert pace.alone(-3.0) == 0


def test_never_more_than_allowed() -> None:
    pace = learnt(base=0.1, each=0.001, most=8)
    assert pace.beside(1) == 8
    assert pace.alone(float("inf")) == 8


def test_jobs_grow_where_they_would_never_arrive_otherwise() -> None:
    pace = learnt(base=0.5, each=0.01)
    for _ in range(8):
        pace.advanced(epochs=pace.at_once, seconds=12.0)  # a job takes that long for any number of epochs
    assert pace.at_once == 32
    pace.advanced(epochs=1, seconds=1.0)
    assert pace.at_once == 8, "arrived"


def test_jobs_do_not_grow_where_that_does_not_help() -> None:
    pace = learnt(base=0.5, each=0.01)
    for _ in range(8):
        pace.advanced(epochs=pace.at_once, seconds=pace.at_once * 0.9)
    assert pace.at_once == 16
    quick = learnt(base=0.5, each=0.01)
    quick.advanced(epochs=8, seconds=1.0)
    assert quick.at_once == 8


def test_what_jobs_were_longer_by_before_the_failure_is_for_the_replay() -> None:
    pace = ReplayPace(interval=1.0, together=8, most=64)
    for _ in range(10):
        pace.observe(seconds=0.8, working=0.6, replayed=0, calm=True)
    pace.base, pace.each = 0.4, 0.1
    assert pace.normal == pytest.approx(0.8)
    assert 5 <= pace.beside(1, kept=True) <= 6, "0.4 s, and the share of a latency of 1.3 s"


def test_what_is_seen_in_a_recovery_is_not_normal() -> None:
    pace = learnt(base=0.5, each=0.01)
    assert pace.normal is None
    pace.observe(seconds=0.5, working=0.3, replayed=0, calm=True)
    pace.observe(seconds=5.0, working=4.8, replayed=0)
    assert pace.normal == 0.5


def test_replay_that_runs_on_other_nodes_uses_their_time() -> None:
    """Jobs get no longer by it, so more is replayed, until they do."""
    pace = learnt(base=0.5, each=0.1)
    assert pace.beside(1, kept=True) <= 2
    for _ in range(20):
        replayed = pace.beside(1, kept=True)
        pace.observe(seconds=max(0.5, 0.05 * replayed), working=0.3, replayed=replayed)
    assert 6 <= pace.beside(1, kept=True) <= 14
    pace.observe(seconds=2.5, working=0.3, replayed=8)
    assert pace.beside(1, kept=True) <= 4, "half of what was too much"


def test_on_other_nodes_replay_begins_with_one_epoch() -> None:
    """Twelve at once took eight seconds on a node that was new to the work."""
    pace = learnt(base=0.5, each=0.01)
    assert pace.beside(1, kept=True) > 10
    pace.unfamiliar()
    carried = []
    for _ in range(4):
        carried.append(pace.beside(1, kept=True))
        pace.observe(seconds=0.52, working=0.3, replayed=carried[-1])
    assert carried == [1, 2, 4, 8]


def test_load_is_a_mean_over_many_jobs() -> None:
    """Windows that end together make one job in ten several times as long."""
    pace = ReplayPace(interval=1.0, together=8, most=64)
    for job in range(200):
        seconds = 3.6 if job % 10 == 9 else 0.4
        pace.worked(seconds=seconds, working=seconds - 0.2, epochs=1)
    assert pace.load == pytest.approx(0.72, rel=0.25)
    pace.worked(seconds=8.0, working=7.8, epochs=8)
    assert pace.load < 1.0


def test_idle_time_is_tried_step_by_step_too() -> None:
    pace = learnt(base=0.5, each=0.01)
    pace.unfamiliar()
    carried = []
    for _ in range(4):
        carried.append(pace.alone(0.8))
        pace.replayed_alone(seconds=0.2 + 0.01 * carried[-1], epochs=carried[-1])
    assert carried == [1, 2, 4, 8]


def test_what_once_took_long_is_tried_again() -> None:
    pace = learnt(base=0.5, each=0.01)
    pace.each = 5.0
    for _ in range(100):
        pace.observe(seconds=0.5, working=0.3, replayed=0)
    assert pace.each < 0.1
