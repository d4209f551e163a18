"""No two places that show health contradict each other, whatever happens in whatever order."""

from __future__ import annotations

from tests.unit.controlplane.health.courses import course_run, setting_make

COURSES = 16


def test_random_courses(db: None) -> None:
    setting_make()
    for seed in range(COURSES):
        for contradiction in course_run(seed):
            raise AssertionError(f"seed {seed}: {contradiction}")
