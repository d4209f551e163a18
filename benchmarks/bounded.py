"""What storing the states of keys costs a topology with a bounded guarantee, and what becomes of it when its
storage is dead.

The six operators of `benchmarks.snapshots`, at full speed, in blocks: with a storage that works, and with one
in whose place there is a file, so that every request fails at once. After each such block the storage works
again, and it is measured how long it takes until something is stored. Storage is a directory on another file
system than the nodes' states (CHECKPOINTS=<directory>, default /dev/shm). EVERY seconds of input pass between
two times that a partition stores its changed keys.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.table import Table

from benchmarks.engine import NODES, advance, running
from benchmarks.forcing import Block, Measured, run_block
from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.snapshots import EPOCH, EPOCH_TUPLES, copying, topology_of
from benchmarks.stack import stopping_in_order
from domain.messages import NodeKeys
from domain.topology import Topology
from domain.topology.spec import KeySavingSpec
from host import environment
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.state.key_requests import desks as desks_of

EVERY, BYPASS, FAILURES = 2.0, 5.0, 3
WARM_UP = 60
KEPT = 0.95
"""Of the throughput, with a dead storage, at least."""
SOON = 1.0
"""Seconds after the bypass within which something is stored again."""


def bounded(topology: Topology) -> Topology:
    saving = KeySavingSpec(every=f"{EVERY:g}s", failures=FAILURES, bypass_s=BYPASS)
    return Topology(msgspec.structs.replace(topology.spec, guarantee="bounded", key_saving=saving))


def measure(session: Session) -> Report:
    rounds, epochs = (1, 20) if session.quick else (3, 40)
    alive: list[Measured] = []
    dead: list[Measured] = []
    again: list[float] = []
    stored: list[int] = []
    refusing: list[int] = []
    with stopping_in_order(), copying() as storage, running(bounded(topology_of(NODES))) as loop:
        with session.progress("blocks", rounds * 2) as step:
            run_block(loop, Block(epochs=WARM_UP))
            for _ in range(rounds):
                before = total(loop, "stored")
                alive.append(run_block(loop, Block(epochs=epochs)))
                stored.append(total(loop, "stored") - before)
                step()
                with broken(storage):
                    while not all(node.storing_failures >= FAILURES for node in keepers(loop)):
                        advance(loop, 1)
                    dead.append(run_block(loop, Block(epochs=epochs)))
                    refusing.append(sum(node.storing_failures >= FAILURES for node in keepers(loop)))
                again.append(until_stored(loop, environment.read().home))
                step()
        changed = total(loop, "changed")
    ratios = [_rate(one) / _rate(other) for one, other in zip(dead, alive, strict=True)]
    return Report(
        parameters={
            "nodes": NODES, "epoch_tuples": EPOCH_TUPLES, "epoch": EPOCH, "rounds": rounds, "every": EVERY,
            "failures": FAILURES, "bypass": BYPASS,
        },
        results={
            "tuples_per_second": [round(_rate(one)) for one in alive],
            "with_a_dead_storage": [round(_rate(one)) for one in dead],
            "relative_throughput": [round(one, 4) for one in ratios],
            "keys_stored_in_a_block": stored,
            "seconds_until_something_was_stored": [round(one, 2) for one in again],
            "changed_keys_in_the_end": changed,
        },
        criteria=[
            at_least("throughput with a dead storage / with one that works", statistics.median(ratios), KEPT),
            at_most("storing again, seconds after the storage was back", max(again), BYPASS + SOON),
            at_least("keys stored in a block with a storage that works, least", min(stored), 1),
            at_least("nodes whose keeper met the dead storage, least", min(refusing), NODES),
        ],
        tables=[table_of(alive, dead, stored, again)],
    )  # fmt: skip


def keepers(loop: EpochLoop) -> Sequence[NodeKeys]:
    """What nodes have said last."""
    return list(loop.keys.told().values())


def total(loop: EpochLoop, figure: str) -> int:
    return sum(int(getattr(node, figure)) for node in keepers(loop))


@contextmanager
def broken(storage: Path) -> Iterator[None]:
    """A file is where the directory was."""
    aside = storage.with_name(f"{storage.name}.aside")
    storage.rename(aside)
    storage.write_bytes(b"")
    try:
        yield
    finally:
        storage.unlink()
        aside.rename(storage)


def until_stored(loop: EpochLoop, home: Path) -> float:
    """Seconds until the last node has stored something again, by what its keeper tells; epochs go on."""
    desks = [one for node in sorted((home / "nodes").iterdir()) for one in desks_of(node)]
    before = [desk.status().segments for desk in desks]
    began = time.perf_counter()
    again: list[float] = []

    def watch() -> None:
        left = list(zip(desks, before, strict=True))
        while left:
            stored = [(desk, count) for desk, count in left if desk.status().segments > count]
            again.extend([time.perf_counter() - began] * len(stored))
            left = [one for one in left if one not in stored]
            time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    while watcher.is_alive():
        advance(loop, 1)
    return max(again)


def _rate(block: Measured) -> float:
    return block.tuples / block.seconds


def table_of(
    alive: Sequence[Measured], dead: Sequence[Measured], stored: Sequence[int], again: Sequence[float]
) -> Table:
    title = f"Six operators, {NODES} nodes, keys stored every {EVERY:g} s of input"
    table = Table(title=title, title_justify="left")
    for column in ("round", "tuples/s", "dead storage", "relative", "keys stored", "stored again after"):
        table.add_column(column, justify="right")
    for number, (one, other, keys, seconds) in enumerate(zip(alive, dead, stored, again, strict=True), 1):
        rates = f"{_rate(one):,.0f}", f"{_rate(other):,.0f}", f"{_rate(other) / _rate(one):.3f}"
        table.add_row(f"{number}", *rates, f"{keys:,}", f"{seconds:.1f} s")
    return table


if __name__ == "__main__":
    sys.exit(run(name="bounded", about=__doc__, measure=measure))
