"""Figure 9: the CPU that checkpoints take, by how often they are made, relative to normal computation.

One deployment, whose driver is asked for a checkpoint again and again, in blocks with another interval each;
the blocks without any are the baseline. What storing takes is measured where it is done, in threads of the
agents, and told with each acknowledgement. Besides, the CPU of all processes of the nodes and of the driver
is compared: that has what tasks leave and what the driver makes of it too, and the noise of everything else.
The control plane, of which checkpoints are asked here, is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rich.table import Table

from benchmarks.active_replicas.pipeline import MAX_UTILISATION, SYNTHETIC, input_write, is_synthetic, spec_of
from benchmarks.active_replicas.stage import SESSION_TIMEOUT, SPARE_NODES, SYNTHETIC_NODES, place
from benchmarks.runner import Report, Session, at_least
from benchmarks.stack import TOPOLOGY, BenchmarkStack, running_stack
from coordination.paths import Paths
from domain.messages import NodeStats, decode
from host.processes import TICKS_PER_SECOND, session_members
from supervision.rest import RestError

EPOCH = 1.0
"""A checkpoint needs an epoch's end, so the shortest interval allows no longer epochs."""
NEVER = 0.0
WARM_UP = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Cores that were used with checkpoints every `interval` seconds. `nodes`: by the processes of the
    topology on nodes; `agents`: by the nodes' agents, of which `storing` is that of the threads that upload;
    `operators`: what partitions measure of themselves."""

    interval: float
    checkpoints: int
    nodes: float
    agents: float
    storing: float
    driver: float
    operators: float

    @property
    def total(self) -> float:
        return self.nodes + self.agents + self.driver


def plan_of(*, quick: bool) -> tuple[list[float], float, int]:
    """Intervals, seconds of a block, rounds."""
    return ([NEVER, 5.0, 1.0], 20.0, 2) if quick else ([NEVER, 30.0, 15.0, 5.0, 1.0], 60.0, 3)


def compared(blocks: Sequence[Block]) -> dict[str, dict[str, float]]:
    """Interval -> what its checkpoints took: in cores, as a share of all CPU without checkpoints, and what
    storing them took, as a share of the operators' own. Each block is compared with the baseline of its
    round, which begins with it."""
    baseline: Block | None = None
    extra: dict[float, list[tuple[Block, Block]]] = {}
    for block in blocks:
        if block.interval == NEVER:
            baseline = block
        elif baseline is not None:
            extra.setdefault(block.interval, []).append((block, baseline))
    return {
        f"{interval:g}": {
            "checkpoints": min(block.checkpoints for block, _ in pairs),
            "cores": _median([block.total - base.total for block, base in pairs]),
            "of_all": _median([(block.total - base.total) / base.total for block, base in pairs]),
            "storing": _median([block.storing for block, _ in pairs]),
            "of_operators": _median([block.storing / base.operators for block, base in pairs]),
        }
        for interval, pairs in sorted(extra.items())
    }


def _median(values: Sequence[float]) -> float:
    return round(median(values), 4)


def cost_of_checkpoints(session: Session, report: Report, *, rate: int) -> None:
    intervals, seconds, rounds = plan_of(quick=session.quick)
    nodes = 1 + SYNTHETIC_NODES + SPARE_NODES
    variables = {
        "RESURGE_SESSION_TIMEOUT": f"{SESSION_TIMEOUT:g}",
        "RESURGE_MAX_UTILISATION": f"{MAX_UTILISATION:g}",
        "RESURGE_CPU_CAPS": "0",
    }
    blocks: list[Block] = []
    with (
        running_stack(nodes=nodes, variables=variables, keep_logs=session.options.logs) as stack,
        session.progress("blocks", len(intervals) * rounds) as step,
    ):
        path = input_write(stack.home / "input" / "keys.parquet", rate)
        place(stack, spec_of(rate, epoch=EPOCH), path)
        stack.healthy()
        time.sleep(WARM_UP)
        for _ in range(rounds):
            for interval in intervals:
                blocks.append(block_run(stack, interval, seconds))
                session.note(str(blocks[-1]))
                step()
        verdict = stack.verify()
    found = compared(blocks)
    report.parameters["figure_9"] = {
        "nodes": nodes,
        "rate": rate,
        "epoch": EPOCH,
        "block_seconds": seconds,
        "rounds": rounds,
    }
    report.results["cpu"] = {
        "intervals": found,
        "without": {
            name: _median([getattr(block, name) for block in blocks if block.interval == NEVER])
            for name in ("nodes", "agents", "driver", "operators")
        },
        "verified_rows": verdict.rows,
    }
    report.tables.append(_table(found))
    taken = {float(interval): row["checkpoints"] for interval, row in found.items()}
    without = max(block.checkpoints for block in blocks if block.interval == NEVER)
    asked = min(count / (seconds // interval) for interval, count in taken.items())
    storing = min(row["storing"] for row in found.values())
    report.criteria += [
        at_least("checkpoints taken / due, least", asked, 0.5),
        at_least("CPU seconds of storing measured, least", float(storing > 0), 1.0),
        at_least("blocks without checkpoints had none", float(without == 0), 1.0),
        at_least("figure 9: verified clean", float(verdict.clean), 1.0),
        at_least("figure 9: rows compared", verdict.rows, 1),
    ]


def block_run(stack: BenchmarkStack, interval: float, seconds: float) -> Block:
    """Ask for checkpoints for so long, then say what was used."""
    settled_at(stack)
    before, began = _used(stack), time.monotonic()
    first = _newest(stack)
    while (passed := time.monotonic() - began) < seconds:
        if interval == NEVER:
            time.sleep(seconds - passed)
            continue
        try:
            stack.rest.post(f"topologies/{TOPOLOGY}/checkpoint/", {"reason": "benchmark"})
        except RestError as error:
            if error.status != 409:  # one is under way
                raise
        spent = time.monotonic() - began - passed
        time.sleep(max(0.0, min(interval - spent, seconds - passed - spent)))
    after = _used(stack)
    settled_at(stack)
    rows = stack.rest.listing(f"topologies/{TOPOLOGY}/checkpoints/?limit=200")
    taken = [row["epoch"] for row in rows if row["state"] == "completed" and row["epoch"] > first]
    operators = sum(row["cpu"] for one, row in stack.partitions().items() if is_synthetic(one))
    rate = {name: _cores(before[name], after[name]) for name in before}
    return Block(
        interval=interval,
        checkpoints=len(taken),
        nodes=sum(value for name, value in rate.items() if name.startswith("nodes ")),
        agents=sum(value for name, value in rate.items() if name.startswith("agent ")),
        storing=_storing(stack, taken) / seconds,
        driver=rate["driver"],
        operators=operators,
    )


def settled_at(stack: BenchmarkStack) -> None:
    """Wait until no checkpoint is under way."""

    def settled() -> bool:
        rows = stack.rest.listing(f"topologies/{TOPOLOGY}/checkpoints/?limit=200")
        return all(row["state"] in ("completed", "failed") for row in rows)

    stack.expect(settled, "no checkpoint under way", timeout=60)


def _newest(stack: BenchmarkStack) -> int:
    rows = stack.rest.listing(f"topologies/{TOPOLOGY}/checkpoints/?limit=200")
    return max((row["epoch"] for row in rows), default=0)


def _storing(stack: BenchmarkStack, epochs: Sequence[int]) -> float:
    """CPU seconds that storing these checkpoints took. Of older ones the parts are not kept; they count as
    much as the others do."""
    known: list[float] = []
    for epoch in epochs:
        parts = stack.rest.get(f"topologies/{TOPOLOGY}/checkpoints/{epoch}/")["acknowledgements"]
        if parts:
            known.append(sum(part["cpu_seconds"] for part in parts))
    return fmean(known) * len(epochs) if known else 0.0


Used = tuple[float, float]
"""When (Unix time), and CPU seconds until then."""


def _used(stack: BenchmarkStack) -> dict[str, Used]:
    """CPU seconds of each node's tasks, of its agent, and of the driver."""
    found: dict[str, Used] = {}
    with stack.zookeeper() as client:
        for node in stack.nodes("alive"):
            stats = decode(client.get(Paths.stats(node))[0], NodeStats)
            found[f"nodes {node}"] = (stats.at, sum(stats.cpu_seconds.values()))
            found[f"agent {node}"] = (stats.at, stats.own_cpu_seconds)
    ticks = sum(one.cpu_ticks + one.reaped_ticks for one in session_members(stack.driver_process().pid))
    return {**found, "driver": (time.time(), ticks / TICKS_PER_SECOND)}


def _cores(before: Used, after: Used) -> float:
    return (after[1] - before[1]) / max(after[0] - before[0], 1e-3)


def _table(found: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(title=f"CPU of checkpoints, {sum(SYNTHETIC.values())} windows", title_justify="left")
    titles = ("interval s", "checkpoints", "cores", "of all CPU", "storing, cores", "of operators' CPU")
    for column in titles:
        table.add_column(column, justify="right")
    for interval, row in found.items():
        table.add_row(
            interval,
            f"{row['checkpoints']:g}",
            f"{row['cores']:.3f}",
            f"{row['of_all']:.1%}",
            f"{row['storing']:.4f}",
            f"{row['of_operators']:.1%}",
        )
    return table
