"""How many epochs a job runs, and when replay comes first."""

from __future__ import annotations

import pytest

from domain.execution.job_sizes import BESIDE_PRESENT, KEPT, LONG, LOOK_EVERY, REPLAY, Hurry, JobSizes


def sizes() -> JobSizes:
    return JobSizes(interval=1.0, together=8, most=64)


def test_a_replay_grows_while_it_is_short() -> None:
    learnt, carried = sizes(), []
    for _ in range(5):
        carried.append(learnt.replay)
        learnt.replayed(epochs=learnt.replay, seconds=REPLAY / 4)
    assert carried == [8, 16, 32, 64, 64]


def test_a_replay_comes_to_take_the_time_that_it_should() -> None:
    """Of its seconds two are spent whatever it replays."""
    learnt = sizes()
    for _ in range(6):
        learnt.replayed(epochs=learnt.replay, seconds=2.0 + 0.5 * learnt.replay)
    assert learnt.replay == 11, "twelve would take eight seconds"


def test_a_replay_that_took_long_has_fewer_epochs_but_at_least_half() -> None:
    learnt = sizes()
    for epochs in (4, 2, 1, 1):
        learnt.replayed(epochs=learnt.replay, seconds=3 * REPLAY)
        assert learnt.replay == epochs


def test_a_replay_may_take_as_long_as_the_job_beside_it() -> None:
    """Its result waits for that job, so a replay that is over sooner leaves its nodes idle."""
    learnt, carried = sizes(), []
    for took in (0.5, 6.0, 16.0):
        carried.append(learnt.replay)
        learnt.replayed(epochs=learnt.replay, seconds=took, beside=20.0)
    assert (carried, learnt.replay) == ([8, 16, 32], 32)
    learnt.replayed(epochs=32, seconds=2 * BESIDE_PRESENT * 20.0, beside=20.0)
    assert learnt.replay == 16


def test_the_last_stretch_says_nothing_of_a_whole_job() -> None:
    learnt = sizes()
    learnt.replayed(epochs=2, seconds=0.1)
    assert learnt.replay == 8


def test_on_other_nodes_a_replay_begins_small() -> None:
    learnt = sizes()
    learnt.replayed(epochs=8, seconds=0.1)
    learnt.unfamiliar()
    assert learnt.replay == 8


def test_load_is_a_mean_over_many_jobs() -> None:
    """Windows that end together make one job in ten several times as long."""
    learnt = sizes()
    for job in range(200):
        seconds = 3.6 if job % 10 == 9 else 0.4
        learnt.worked(seconds=seconds, working=seconds - 0.2, epochs=1)
    assert learnt.load == pytest.approx(0.72, rel=0.25)
    learnt.worked(seconds=8.0, working=7.8, epochs=8)
    assert learnt.load < 1.0


def test_jobs_grow_as_long_as_that_makes_them_faster() -> None:
    learnt = sizes()
    learnt.advanced(epochs=8, seconds=5.0)
    assert learnt.at_once == 16
    learnt.advanced(epochs=16, seconds=9.5)
    assert learnt.at_once == 16, "no faster than before"
    learnt.advanced(epochs=1, seconds=0.5)
    assert learnt.at_once == 8


def test_jobs_that_take_long_do_not_grow() -> None:
    """A plan waits for their end."""
    learnt = sizes()
    learnt.advanced(epochs=8, seconds=LONG + 0.1)
    assert learnt.at_once == 8


def test_replay_is_hurried_once_those_behind_come_no_nearer() -> None:
    hurry = Hurry()
    hurry.begin(100.0)
    assert not any(hurry.look(500, 100.0 + second) for second in range(int(KEPT)))
    assert not hurry.look(500, 100.0 + KEPT), "what is to be compared with is only known now"
    later = 100.0 + KEPT + LOOK_EVERY
    assert not hurry.look(400, later)
    assert hurry.look(400, later + LOOK_EVERY)
    assert hurry.now
    hurry.begin(300.0)
    assert not hurry.now


def test_those_nearly_there_run_with_the_others() -> None:
    """A replay of few epochs takes as long as the present takes for as many, again and again."""
    sizes = JobSizes(1.0, 8, 32)
    assert sizes.join == 2
    sizes.replay = 32
    assert sizes.join == 4, "half of what a job of the present may take"
    sizes.replay = 1
    assert sizes.join == 1
