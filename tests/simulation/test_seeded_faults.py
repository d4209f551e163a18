"""The simulation finds faults: with each of `seeded_faults` a schedule fails, of the given kind and within
the number of schedules that `make test-long` runs. `python -m tests.simulation.test_seeded_faults` prints
the table of docs/simulation.md."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest
import structlog

from domain.topology.spec import CheckpointMode
from tests.simulation import test_engine, test_engine_marks
from tests.simulation.engine_schedules import clean_marks, clean_rows
from tests.simulation.exact_chaos import LIMIT, Chaos
from tests.simulation.exact_world import ExactWorld
from tests.simulation.incident_schedules import run_schedule
from tests.simulation.pieces_world import run_pieces
from tests.simulation.scarce_world import run_scarce
from tests.simulation.seeded_fault import Fault, Where
from tests.simulation.seeded_faults import FAULTS
from tests.simulation.test_exact import (
    CYCLES,
    ENDS,
    MODES,
    MOVES,
    REPLICAS,
    RUNS,
    STOPS,
    TENTATIVE,
    WORLDS,
)
from tests.simulation.test_pieces import SEEDS as PIECES
from tests.simulation.test_scarce import SEEDS as SCARCE

SCHEDULES: dict[Where, int] = {
    "runs": RUNS,
    "moves": MOVES,
    "replicas": REPLICAS,
    "tentative": TENTATIVE,
    "ends": ENDS,
    "cycles": CYCLES,
    "cycle ends": CYCLES,
    "modes": MODES,
    "stops": STOPS,
    "incidents": WORLDS,
    "engine": test_engine.SCHEDULES,
    "marks": test_engine_marks.REPEATED,
    "scarce": len(SCARCE),
    "pieces": len(PIECES),
}
KINDS: dict[Where, str] = {
    "runs": "a run of a topology",
    "moves": "a run with moves",
    "replicas": "a run with replicas",
    "tentative": "a run with tentative output",
    "ends": "a run of a bounded input",
    "cycles": "a run with cycles",
    "cycle ends": "a bounded input with cycles",
    "modes": "checkpoints beside each other, or synchronous",
    "stops": "undeployed, and going on",
    "incidents": "with the coordinator",
    "engine": "the engine",
    "marks": "stages that run again",
    "scarce": "CPU that is short",
    "pieces": "room in pieces",
}


def run(where: Where, seed: int) -> None:
    """Run one schedule; raises an error if it finds a fault."""
    if where == "runs":
        Chaos(seed // 2, deterministic=seed % 2 == 0).go()
    elif where == "moves":
        Chaos(seed // 2, deterministic=seed % 2 == 0, moves=True).go()
    elif where == "replicas":
        Chaos(seed // 2, deterministic=seed % 8 > 0, moves=seed % 2 == 0, replicas=True).go()
    elif where == "tentative":
        chaos = Chaos(seed // 2, moves=seed % 2 == 0, replicas=seed % 3 == 0, tentative=True)
        chaos.go()
        assert not chaos.run.tracker.branches.homes
    elif where == "ends":
        Chaos(seed // 2, deterministic=seed % 2 == 0, limit=LIMIT).go_to_the_end()
    elif where == "cycles":
        Chaos(
            seed // 2,
            cycles=True,
            deterministic=seed % 8 > 0,
            moves=seed % 2 == 0,
            replicas=seed % 3 == 0,
        ).go()
    elif where == "cycle ends":
        Chaos(seed // 2, cycles=True, deterministic=seed % 2 == 0, limit=LIMIT).go_to_the_end()
    elif where == "modes":
        at_once = 1 + seed % 3
        mode: CheckpointMode = "synchronous" if at_once == 1 else "asynchronous"
        Chaos(seed, deterministic=seed % 4 == 0, moves=seed % 2 == 0, mode=mode, at_once=at_once).go()
    elif where == "stops":
        Chaos(seed // 2, deterministic=seed % 2 == 0, moves=seed % 3 == 0, stops=True).go()
    elif where == "incidents":
        run_schedule(seed, kind=ExactWorld)
    elif where == "scarce":
        run_scarce(SCARCE[seed])
    elif where == "pieces":
        run_pieces(PIECES[seed])
    elif where == "marks":
        with tempfile.TemporaryDirectory() as name:
            world = test_engine_marks.new_world(Path(name), seed // 2)
            test_engine_marks.repeat(world, clean_marks(), alone=seed % 2 == 0)
    else:
        with tempfile.TemporaryDirectory() as name:
            test_engine.survive(test_engine.new_world(Path(name), seed), clean_rows())


def fails(where: Where, seed: int) -> bool:
    try:
        run(where, seed)
    except Exception:  # an assertion of the simulation, or an error of the product's own code
        return True
    return False


def found_after(fault: Fault) -> int | None:
    """The number of schedules, from seed 0 on, until one fails; None if it is more than the default."""
    return next((seed + 1 for seed in range(SCHEDULES[fault.where]) if fails(fault.where, seed)), None)


def is_found(fault: Fault) -> bool:
    """Whether one of the default schedules fails. First comes the one that failed before, because those that
    pass take most of the time."""
    if fault.found_by < SCHEDULES[fault.where] and fails(fault.where, fault.found_by):
        return True
    number = found_after(fault)
    if number is not None:
        warnings.warn(f"found_by={number - 1}, not {fault.found_by}: {fault.name}", stacklevel=1)
    return number is not None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
def test_the_simulation_finds(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    clean_rows()
    clean_marks()
    fault.seed(monkeypatch)
    assert is_found(fault)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for fault in FAULTS:
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(time, "sleep", lambda seconds: None)
            clean_rows()
            clean_marks()
            fault.seed(monkeypatch)
            number = found_after(fault)
            print(f"| {fault.name} | {KINDS[fault.where]} | {number} |", flush=True)
            if number is not None and number != fault.found_by + 1:
                print(f"found_by={number - 1}, not {fault.found_by}", file=sys.stderr)


if __name__ == "__main__":
    main()
