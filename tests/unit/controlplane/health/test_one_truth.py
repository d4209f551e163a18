"""No two places that show health contradict each other, whatever happens in whatever order."""

from __future__ import annotations

from tests.examples import examples
from tests.unit.controlplane.health.courses import course_run, setting_make

SEEDS = (*range(examples(20)), 5020)
"""5020: an incident grows after all queries were back."""


def test_random_courses(db: None) -> None:
    setting_make()
    for seed in SEEDS:
        for contradiction in course_run(seed):
            raise AssertionError(f"seed {seed}: {contradiction}")
