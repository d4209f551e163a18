"""`python -m supervision.long_checks [--only PART]`: what takes hours, and CI does not run.

schedules    every simulation with all its examples, and thousands of random schedules of incidents, alone,
             with the exact engine model, and with replicas, thousands of the epoch machine alone, and
             hundreds of the engine with its files
crashes      power cuts on a file system that loses what was not forced to disk, where loop devices can be had
kills        kill schedules on real processes: nodes, driver, workers and servers, verified row by row
freezes      every kind of process stops for 5, 30 and 120 s while nodes are recovered, verified row by row
power        50 power cuts under a whole installation on such a file system, verified row by row
memory       whether memory stays flat over 3,600 epochs
demo         a browser beside a fresh `make up`: the guided tour, and all pages in a real incident
audit        whether vulnerabilities are known of the locked requirements
pairs        every pair of services that write, at the same moment on PostgreSQL, where it is installed
health       10,000 random courses in which no two places that show health contradict each other
replication  replication plans of 6,000 random topologies against the optimum, and the accuracy of two queries
repetitions  every test on real processes, 20 times, side by side and with a failure run once more, as in
             `make test`

Tests read tweets from RESURGE_TEST_DATA (see `tests/data.py`), `kills` from INPUT or else the sample. The
parts run one after the other; a part that fails does not end the others. What could not be run is listed in
the end as skipped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

from supervision.checks import INSTALLATIONS, SKIPPED, WAITING, command_run, report, run_together, say

PARTS = (
    *("audit", "demo", "schedules", "crashes", "kills", "freezes", "power", "memory", "pairs", "health"),
    *("replication", "repetitions"),
)
SCHEDULES = 3_000
ENGINE_SCHEDULES = 200
CRASH_SCHEDULES = 13
KILL_SCHEDULES = 30
COURSES = 10_000
FREEZES = (5.0, 30.0, 120.0)
POWER_CUTS = 50
REPETITIONS = 20


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m supervision.long_checks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part; may be repeated")
    parser.add_argument(
        "--schedules", type=int, default=SCHEDULES, help=f"of each kind (default {SCHEDULES})"
    )
    parser.add_argument(
        "--engine-schedules", type=int, default=ENGINE_SCHEDULES, help=f"of 7 (default {ENGINE_SCHEDULES})"
    )
    parser.add_argument(
        "--crash-schedules", type=int, default=CRASH_SCHEDULES, help=f"of 4 (default {CRASH_SCHEDULES})"
    )
    parser.add_argument(
        "--kill-schedules", type=int, default=KILL_SCHEDULES, help=f"default {KILL_SCHEDULES}"
    )
    parser.add_argument("--courses", type=int, default=COURSES, help=f"of health (default {COURSES})")
    parser.add_argument(
        "--freezes", nargs="+", type=float, default=FREEZES, metavar="SECONDS", help="default 5 30 120"
    )
    parser.add_argument("--power-cuts", type=int, default=POWER_CUTS, help=f"default {POWER_CUTS}")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS, help=f"default {REPETITIONS}")
    parser.add_argument("--tests", nargs="+", metavar="TEST", help="repeat these instead of all")
    parser.add_argument("--first", type=int, default=0, help="seed of the first random schedule (default 0)")
    options = parser.parse_args()
    os.environ["RESURGE_TEST_EXAMPLES"] = "new"  # see tests/examples.py
    started = time.monotonic()
    failed: list[str] = []
    skipped: list[str] = []
    for part in options.only or PARTS:
        say(f"=== {part}")
        if part == "repetitions":
            failed += repeat(
                options.repetitions, [options.tests] if options.tests else [WAITING, INSTALLATIONS]
            )
            continue
        for arguments in COMMANDS[part](options):
            command = [sys.executable, "-m", *arguments]
            code = command_run(command)
            if code != 0:
                (skipped if code == SKIPPED else failed).append(" ".join(arguments))
    report("in the end", failed)
    if skipped:
        say(f"--- skipped, so not checked: {', '.join(skipped)}")
    counts = f"{len(failed)} failed, {len(skipped)} skipped"
    say(f"==== {counts} in {time.monotonic() - started:.0f}s ====")
    return 1 if failed else 0


def repeat(times: int, groups: list[list[str]]) -> list[str]:
    """Run groups of tests, side by side as `make test` does; returns what failed for good."""
    failed: list[str] = []
    for number in range(1, times + 1):
        say(f"=== repetition {number} of {times}")
        failed += [f"repetition {number}: {title}" for title in run_together(groups)]
    return failed


def _audit(_: argparse.Namespace) -> list[list[str]]:
    return [["supervision.audit"]]


def _demo(_: argparse.Namespace) -> list[list[str]]:
    return [["pytest", "-s", "tests/demo"]]


def _schedules(options: argparse.Namespace) -> list[list[str]]:
    drawn = ["--count", str(options.schedules), "--first", str(options.first)]
    engine = ["--count", str(options.engine_schedules), "--first", str(options.first)]
    return [
        ["pytest", "tests/simulation"],
        ["tests.simulation.incident_schedules", *drawn],
        ["tests.simulation.incident_schedules", *drawn, "--changes"],
        ["tests.simulation.exact_world", *drawn, "--processes", "2"],
        ["tests.simulation.replica_world", *drawn],
        ["tests.simulation.machine_schedules", *drawn, "--processes", "2"],
        ["tests.simulation.engine_schedules", *engine, "--processes", "2"],
    ]


def _crashes(options: argparse.Namespace) -> list[list[str]]:
    drawn = ["--count", str(options.crash_schedules), "--first", str(options.first)]
    return [["tests.simulation.crash_schedules", *drawn]]


def _kills(options: argparse.Namespace) -> list[list[str]]:
    count = ["benchmarks.kill_schedules", "--count", str(options.kill_schedules)]
    return [count, [*count, "--seed", "2", "--replicas", "12"]]


def _freezes(options: argparse.Namespace) -> list[list[str]]:
    return [["benchmarks.freezes", "--seconds", *(f"{one:g}" for one in options.freezes)]]


def _power(options: argparse.Namespace) -> list[list[str]]:
    return [["benchmarks.power_cuts", "--count", str(options.power_cuts)]]


def _memory(_: argparse.Namespace) -> list[list[str]]:
    return [["benchmarks.memory"]]


def _pairs(_: argparse.Namespace) -> list[list[str]]:
    return [["tests.integration.control_plane.all_pairs"]]


def _health(options: argparse.Namespace) -> list[list[str]]:
    drawn = ["--count", str(options.courses), "--first", str(options.first)]
    return [["tests.unit.controlplane.health.courses_many", *drawn]]


def _replication(_: argparse.Namespace) -> list[list[str]]:
    return [["benchmarks.replication"]]


COMMANDS: dict[str, Callable[[argparse.Namespace], list[list[str]]]] = {
    "audit": _audit,
    "demo": _demo,
    "schedules": _schedules,
    "crashes": _crashes,
    "kills": _kills,
    "freezes": _freezes,
    "power": _power,
    "memory": _memory,
    "pairs": _pairs,
    "health": _health,
    "replication": _replication,
}


if __name__ == "__main__":
    sys.exit(main())
