"""Which of the tasks that are sent run at once."""

from __future__ import annotations

import threading

from workers.tasks import Turns

LIMIT = 10.0


def test_of_many_steps_of_an_incident_one_runs_and_one_waits() -> None:
    turns, begun, over, steps = Turns(), threading.Event(), threading.Event(), [0]

    def step() -> None:
        steps[0] += 1
        begun.set()
        assert over.wait(LIMIT)

    first = threading.Thread(target=turns.take, args=(1, step))
    first.start()
    assert begun.wait(LIMIT)
    rest = [threading.Thread(target=turns.take, args=(1, step)) for _ in range(5)]
    for one in rest:
        one.start()
    while sum(one.is_alive() for one in rest) > 1:
        rest[0].join(0.001)
    assert steps == [1]
    over.set()
    for one in (first, *rest):
        one.join(LIMIT)
    assert steps == [2]


def test_a_step_that_fails_ends_its_turn() -> None:
    turns, steps = Turns(), []

    def failing() -> None:
        raise ValueError("no plan")

    try:
        turns.take(1, failing)
    except ValueError:
        turns.take(1, lambda: steps.append(1))
    assert steps == [1]
