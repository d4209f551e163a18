"""Schedules of many seeds: what was counted in them, and which fail."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from rich.progress import track

TOLD = 3
"""Failures of which the end of the traceback is shown."""


def run_seeds(
    run: Callable[[int], Mapping[str, int]], *, count: int, first: int, processes: int = 1
) -> tuple[Counter[str], list[int]]:
    """Call `run` with each seed, and print what it counts. Returns the totals, and the seeds that failed.

    With more than one process `run` must be a function of a module, or a partial of one.
    """
    started = time.monotonic()
    totals: Counter[str] = Counter()
    failing: list[int] = []
    for seed, counts, problem in track(
        _results(run, range(first, first + count), processes), total=count, description="schedules"
    ):
        totals.update(counts)
        if problem:
            failing.append(seed)
            if len(failing) <= TOLD:
                print(f"seed {seed}\n{problem}", flush=True)
    seconds = time.monotonic() - started
    print(f"{count} schedules from seed {first} in {seconds:.0f} s: {len(failing)} fail {failing}")
    for what, number in sorted(totals.items()):
        print(f"  {number:>9,} {what}")
    return totals, failing


def _results(
    run: Callable[[int], Mapping[str, int]], seeds: Iterable[int], processes: int
) -> Iterable[tuple[int, Mapping[str, int], str]]:
    if processes == 1:
        yield from (_attempt(run, seed) for seed in seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(_attempt, run), seeds, chunksize=10)


def _attempt(run: Callable[[int], Mapping[str, int]], seed: int) -> tuple[int, Mapping[str, int], str]:
    try:
        return seed, run(seed), ""
    except Exception:  # the point is to go on and list them all
        return seed, {}, traceback.format_exc(limit=-6)
