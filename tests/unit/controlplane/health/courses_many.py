"""`python -m tests.unit.controlplane.health.courses_many --count 10000`: random courses, without pytest."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first course")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
    import django

    django.setup()
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    logging.disable(logging.CRITICAL)
    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    started, found = time.monotonic(), 0
    try:
        from tests.unit.controlplane.health.courses import course_run, setting_make

        setting_make()
        for seed in range(options.first, options.first + options.count):
            for contradiction in course_run(seed):
                found += 1
                print(f"seed {seed}: {contradiction}", flush=True)
                break
    finally:
        teardown_databases(databases, verbosity=0)
    print(f"{options.count} courses, {found} with a contradiction, {time.monotonic() - started:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
