"""The reports of a whole fleet, second by second, in a process of their own: what the detection worker's
ingestion writes while everything runs. `python -m benchmarks.dashboard.ingesting`, ended by a signal.

The environment names the installation. Prints how many seconds it could not keep up with.
"""

from __future__ import annotations

import signal
import sys
import time


def main() -> None:
    import django

    django.setup()
    from benchmarks.dashboard.fleet import Fleet

    fleet = Fleet()
    names = fleet.topologies()
    ended = False

    def end(number: int, frame: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    seconds = late = 0
    due = time.monotonic()
    while not ended:
        fleet.second()
        for number, name in enumerate(names):
            # Drivers do not all report at the same moment.
            time.sleep(max(0.0, due + number / (len(names) + 1) - time.monotonic()))
            fleet.report(name)
        fleet.heartbeats()
        due += 1.0
        seconds += 1
        if time.monotonic() > due:
            late += 1
            due = time.monotonic()
        time.sleep(due - min(due, time.monotonic()))
    sys.stdout.write(f"{seconds} {late}\n")


if __name__ == "__main__":
    main()
