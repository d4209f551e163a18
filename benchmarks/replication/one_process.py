"""A topology in this process: the real readers, operators and exchange, without Spark.

A partition runs the whole time or never, as in the worst case of a correlated failure. What one gives depends
on which of those above it run, and on nothing else: it is computed once for each such set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from domain.execution.job import EpochPlan
from domain.execution.progress import Position
from domain.topology import load_topology, split_partition
from spark_jobs.driver.epoch_log import EpochLog, epoch_log_directory
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.executor.exchange import route, routed_count
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.sinks.parquet import OutputFiles
from spark_jobs.sinks.writing import root_mark
from spark_jobs.sources.registry import reader_create
from spark_jobs.state.tables import StateTables

Tables = list[pa.Table | None]
"""By epoch; the first one is that of epoch 1."""

BEGIN = 1_700_000_003
"""Unix second of the first tuple: within a window, as in most runs."""
DEPLOYED = 1


@dataclass(frozen=True, slots=True)
class Given:
    """What a partition gives, and what of it each partition below gets."""

    rows: Tables
    routed: Mapping[str, Tables]


@dataclass(frozen=True, slots=True)
class Measured:
    """Tuples per second: what partitions give, and what goes from each to the targets that it can choose
    from, as in `domain.fidelity.Flows`."""

    rates: dict[str, float]
    flows: dict[str, dict[str, list[float]]]


class OneProcess:
    """The first `epochs` epochs of a topology, planned as a driver does whose clock goes from one to the
    next. home: where the prepared inputs and the epoch log are, and outputs of `write`."""

    def __init__(self, spec: Mapping[str, Any], home: Path, epochs: int) -> None:
        catalogue = OperatorCatalogue(())
        self.topology = load_topology(spec, catalogue)
        self.home = home
        self._operators = {
            operator.name: catalogue.create(
                operator.kind, operator.params, [stream.source for stream in operator.inputs]
            )
            for operator in self.topology.operators
            if operator.inputs
        }
        self._plans, self._readers = self._planned(epochs)
        self._above: dict[str, frozenset[str]] = {}
        for partition in self.topology.partitions:
            read = self.topology.upstream(partition)
            self._above[partition] = frozenset(read).union(*(self._above[one] for one in read))
        self._given: dict[tuple[str, frozenset[str]], Given] = {}

    def _planned(self, epochs: int) -> tuple[list[EpochPlan], dict[str, Any]]:
        log = EpochLog(epoch_log_directory(self.home, self.topology.name) / "epochs.log", force=False)
        now = [float(BEGIN)]
        planner = EpochPlanner(
            topology=self.topology, log=log, home=self.home, modules=[], clock=lambda: now[0]
        )
        planner.prepare(lambda problem: None)
        planner.start()
        log.deployed = DEPLOYED
        log.applied(DEPLOYED, Position(), {})
        plans: list[EpochPlan] = []
        for _ in range(epochs):
            now[0] += self.topology.spec.epoch_interval
            plans += planner.plan_due(ahead=1, reached=log.head)
        log.commit(Position(log.head), now[0])
        log.close()
        readers = {
            source.name: reader_create(source.params, planner.options[source.name])
            for source in self.topology.sources
        }
        return plans, readers

    def outputs(self, alive: Collection[str]) -> dict[str, Tables]:
        """What each query gives when exactly these partitions run."""
        running = frozenset(alive)
        nothing: Tables = [None] * len(self._plans)
        return {
            query: self._of(query, running).rows if query in running else nothing
            for query in self.topology.queries
        }

    def write(self) -> Path:
        """Write what the queries give when all partitions run, as tasks do; returns the directory."""
        root = self.home / "outputs"
        root_mark(root, force=False)
        files = OutputFiles(root, self.topology.name, deployed=DEPLOYED, force=False)
        for query, tables in self.outputs(self.topology.partitions).items():
            for plan, table in zip(self._plans, tables, strict=True):
                files.write(*split_partition(query), plan.epoch, table)
        for _, failure in files.settle().values():
            raise failure
        return root

    def measured(self, *, after: int) -> Measured:
        """Rates when all partitions run, from the epoch after `after` on."""
        everything = frozenset(self.topology.partitions)
        seconds = (len(self._plans) - after) * self.topology.spec.epoch_interval
        rates: dict[str, float] = {}
        flows: dict[str, dict[str, list[float]]] = {}
        for partition in self.topology.partitions:
            given = self._of(partition, everything)
            counts: dict[str, list[int]] = {}
            for at in range(after, len(self._plans)):
                routed = [([target], tables[at]) for target, tables in given.routed.items()]
                routed_count(self.topology, partition, given.rows[at], routed, counts)
            rates[partition] = (
                sum(table.num_rows for table in given.rows[after:] if table is not None) / seconds
            )
            if counts:
                flows[partition] = {
                    target: [count / seconds for count in mine] for target, mine in counts.items()
                }
        return Measured(rates, flows)

    def _of(self, partition: str, running: frozenset[str]) -> Given:
        above = self._above[partition] & running
        if (partition, above) not in self._given:
            arriving = {
                one: self._of(one, running) for one in self.topology.upstream(partition) if one in above
            }
            self._given[partition, above] = self._run(partition, arriving)
        return self._given[partition, above]

    def _run(self, partition: str, arriving: Mapping[str, Given]) -> Given:
        rows: Tables = []
        routed: dict[str, Tables] = {target: [] for target in self.topology.downstream(partition)}
        for table in self._processed(partition, arriving):
            rows.append(table)
            for targets, part in route(self.topology, partition, table, self._operators):
                for target in targets:
                    routed[target].append(part)
        return Given(rows, routed)

    def _processed(self, partition: str, arriving: Mapping[str, Given]) -> Iterator[pa.Table | None]:
        name, index = split_partition(partition)
        state = StateTables({}, {}, {})
        for at, plan in enumerate(self._plans):
            if name in self._readers:
                yield self._read(name, index, plan)
                continue
            # Of what does not run nothing arrives: an input that is empty.
            tables: dict[str, list[pa.Table]] = {one.source: [] for one in self.topology.by_name[name].inputs}
            for source, given in arriving.items():
                part = given.routed[partition][at]
                if part is not None and part.num_rows:
                    tables[split_partition(source)[0]].append(part)
            context = EpochContext(plan.epoch, plan.watermark, plan.previous_watermark, plan.final)
            yield self._operators[name].process(context, tables, state)

    def _read(self, name: str, index: int, plan: EpochPlan) -> pa.Table | None:
        reader = self._readers[name]
        slices = reader.partitions(*plan.slices[name])
        batches = [batch for batch in reader.read(slices[index]) if batch.num_rows] if slices else []
        return pa.Table.from_batches(batches) if batches else None
