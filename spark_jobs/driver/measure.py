"""What the epoch loop measured: latency per query, CPU and rows per partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from domain.execution.instructions import Measured
from domain.execution.job import PartitionReport, TaskReport
from domain.execution.reach import blocked_partitions
from domain.messages import DriverState, EpochReport, NodeWork, PartitionMetrics, QueryMetrics
from domain.topology import Topology
from domain.topology.copies import is_copy
from spark_jobs.driver.epoch_log import EpochLog

# Recovery plans with these costs. A window costs many times more in the epochs that close it than in those
# between, so what counts is a moving average over some twenty epochs.
SMOOTHING = 0.1


class Measure:
    """A query's latency is the mean end-to-end latency of the tuples in the epochs it just applied: from when
    a tuple was due at the source to the end of the job that processed it. A query that cannot advance has
    the age of the oldest tuple that waits for it instead. `costs`: what an earlier driver had learnt."""

    def __init__(self, topology: Topology, costs: Mapping[str, float] | None = None) -> None:
        self.topology = topology
        self._costs = dict(costs or {})
        self._tuple_rates: dict[str, float] = {}
        self._latency: dict[str, float] = {}

    def report(self, told: Measured, *, log: EpochLog, ended: float, state: DriverState) -> EpochReport:
        """The telemetry message of one job, which ended at `ended` (Unix seconds)."""
        partitions: dict[str, PartitionMetrics] = {}
        results: dict[str, PartitionReport] = {}
        blocked = {*told.absent, *told.failing}
        if not self.topology.spec.bounded:
            blocked = blocked_partitions(self.topology, blocked)
        self._learn_costs(told)
        for task in told.reports:
            for name, result in task.partitions.items():
                if is_copy(name):
                    continue
                results[name] = result
                partitions[name] = PartitionMetrics(
                    epoch=told.progress[name],
                    node=task.node,
                    cost=self._cost(name),
                    tuple_rate=self._tuple_rate(name),
                    rows_in=result.rows_in,
                    rows_out=result.rows_out,
                    state_bytes=result.state_bytes,
                )
        queries = {
            query: self._query(query, told, log, ended, blocked=query in blocked, result=results.get(query))
            for query in self.topology.queries
        }
        sources = {source.name for source in self.topology.sources}
        tuples = sum(
            metrics.rows_in for name, metrics in partitions.items() if name.partition("[")[0] in sources
        )
        last = log.plans.get(told.present.last) if told.present else None
        seconds = (told.present.epochs if told.present else 1) * self.topology.spec.epoch_interval
        return EpochReport(
            topology=self.topology.name,
            generation=told.generation,
            first=told.present.first if told.present else told.front + 1,
            last=told.present.last if told.present else told.front,
            head=log.head,
            committed=log.committed,
            tuples=tuples,
            started_at=told.started,
            ended_at=ended,
            input_rate=tuples / seconds,
            watermark=last.watermark / 1e6 if last else 0.0,
            state=state,
            absent=sorted(told.absent),
            queries=queries,
            partitions=partitions,
            work=_work(told.reports),
            epoch_interval=self.topology.spec.epoch_interval,
            window_cycle=self.topology.window_cycle,
            rates=told.rates,
            flows=told.flows,
            replayed=told.replayed,
        )

    def _query(
        self,
        query: str,
        told: Measured,
        log: EpochLog,
        now: float,
        *,
        blocked: bool,
        result: PartitionReport | None,
    ) -> QueryMetrics:
        half = self.topology.spec.epoch_interval / 2
        reached = told.progress[query]
        applied = [log.plans[e] for e in range(told.before[query] + 1, reached + 1) if e in log.plans]
        waiting = log.plans.get(reached + 1)
        if applied and not blocked:
            latency = now - sum(plan.at - half for plan in applied) / len(applied)
        else:
            latency = now - (waiting.at - half) if waiting else self._latency.get(query, 0.0)
        self._latency[query] = latency
        rows = result.rows_out if result else 0
        return QueryMetrics(
            epoch=reached,
            latency=max(latency, 0.0),
            rows=rows,
            stalled=blocked or (not applied and waiting is not None),
        )

    def _learn_costs(self, told: Measured) -> None:
        """What a partition costs is learnt from the present only: a replay is not its normal load."""
        present, before = told.present, told.before
        if present is None:
            return
        for name, result in (item for task in told.reports for item in task.partitions.items()):
            if is_copy(name):
                continue
            if present.starts.get(name) == before[name] and result.epoch == present.last:
                seconds = (present.last - before[name]) * self.topology.spec.epoch_interval
                _smooth(self._costs, name, result.cpu_seconds / seconds)
                _smooth(self._tuple_rates, name, (result.rows_in + result.rows_out) / seconds)

    def _cost(self, partition: str) -> float | None:
        share = self._costs.get(partition)
        return None if share is None else round(share, 6)

    def _tuple_rate(self, partition: str) -> float | None:
        rate = self._tuple_rates.get(partition)
        return None if rate is None else round(rate, 1)

    def costs(self) -> dict[str, float]:
        """CPU seconds per second of each partition, smoothed."""
        return {partition: round(share, 6) for partition, share in self._costs.items()}


def _smooth(averages: dict[str, float], name: str, value: float) -> None:
    earlier = averages.get(name, value)
    averages[name] = earlier + SMOOTHING * (value - earlier)


def _work(reports: Sequence[TaskReport]) -> dict[str, NodeWork]:
    """By node; a task that ran on another node than it should did nothing."""
    tasks: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    tuples: Counter[str] = Counter()
    for task in reports:
        if not task.misplaced:
            tasks[task.node] += 1
            seconds[task.node] += task.cpu_seconds
            tuples[task.node] += task.tuples
    return {
        node: NodeWork(tasks=count, cpu_seconds=round(seconds[node], 6), tuples=tuples[node])
        for node, count in tasks.items()
    }
