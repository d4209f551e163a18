"""Sources: preparing the input and cutting it into epochs by the clock, each with its watermark."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql.streaming.datasource import ReadAllAvailable

from domain.execution.job import NO_WATERMARK, EpochPlan, TaskReport
from domain.messages import ProblemReport
from domain.topology import Topology, split_partition
from domain.topology.copies import is_copy
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.fresh_start import MICROS, deployed_origin
from spark_jobs.sources.arrivals import counts_read
from spark_jobs.sources.built_in import FILE, TRAFFIC, reader_of
from spark_jobs.sources.idleness import Idleness
from spark_jobs.sources.kept import keep
from spark_jobs.sources.lateness import lateness_us
from spark_jobs.sources.prepare import prepare
from spark_jobs.sources.registry import reader_create
from spark_jobs.sources.samples import sample_ensure
from spark_jobs.sources.speeds import speeds_read
from spark_jobs.sources.surges import delivered

logger = structlog.get_logger()


class EpochPlanner:
    """Plans epochs: with `pace: realtime` one per epoch interval with the tuples due by then, so that what
    arrives while the engine is away waits in the log; with `pace: fast` as fast as epochs are asked for.
    The watermark of a reader that does not know its own follows the event times that `observe` is told of."""

    def __init__(
        self, *, topology: Topology, log: EpochLog, home: Path, modules: list[str], clock: Callable[[], float]
    ) -> None:
        self.topology = topology
        self.log = log
        self.directory = home / "topologies" / topology.name
        self.home = home
        self.modules = modules
        self.clock = clock
        self.options: dict[str, dict[str, Any]] = {}
        self._readers: dict[str, Any] = {}
        self._surges = {source.name: source.params.get("surges") or [] for source in topology.sources}
        self._lateness = {source.name: lateness_us(source.params) for source in topology.sources}
        last = log.plans.get(log.head)
        self._idleness = Idleness(
            {source.name: source.params for source in topology.sources}, last.idle if last else (), clock
        )
        # The greatest event time that tasks have reported of each source, in microseconds.
        self._event_times: dict[str, int] = {}
        chosen = deployed_origin(topology)
        # Event time of tuple 0: of an earlier start, of the deployment, or now.
        self.origin_us: int = next(
            (known for known in (log.origin_us, chosen) if known is not None), int(clock()) * MICROS
        )

    def prepare(self, problem: Callable[[ProblemReport], None]) -> None:
        """Validate and convert the input of each source; raises `SourceError`."""
        first = self.log.origin_us is None
        origin_us = self.origin_us
        for source in self.topology.sources:
            params = source.params
            options: dict[str, Any] = {"parallelism": source.parallelism, "origin_us": origin_us}
            options |= {name: params[name] for name in ("rate", "limit") if params.get(name) is not None}
            if not params.get("arrivals"):
                options.setdefault("rate", 1000)
            if reader_of(params) == FILE:
                target = self.directory / ("input.arrow" if self._only else f"{source.name}.arrow")
                prepared = prepare(
                    params.get("path") or sample_ensure(self.home, params.get("sample")),
                    target,
                    text=params.get("text") or "text",
                    ts="" if params.get("arrivals") else params.get("ts") or "ts",
                    ts_unit=params.get("ts_unit") or "auto",
                    partition_by=params.get("partition_by") or "",
                    refresh=first,
                )
                if params.get("arrivals"):
                    options["arrivals"] = str(self.directory / f"{source.name}.arrivals.json")
                    keep(params["arrivals"], Path(options["arrivals"]), counts_read, refresh=first)
                for found in prepared.problems:
                    problem(
                        ProblemReport(
                            topology=self.topology.name,
                            where=found.where,
                            what=found.what,
                            hint=found.hint,
                            severity="warning",
                        )
                    )
                options["path"] = str(target)
            elif reader_of(params) == TRAFFIC:
                if params.get("path"):
                    options["path"] = str(self.directory / f"{source.name}.speeds.json")
                    keep(params["path"], Path(options["path"]), speeds_read, refresh=first)
            else:
                options |= params.get("options", {})
            self.options[source.name] = options
            self._readers[source.name] = reader_create(params, options, self.modules)

    def observe(self, reports: Iterable[TaskReport]) -> None:
        """Take the event times that tasks saw. Epochs planned from now on have them in their watermark; a
        driver that ends before it has planned one learns them again with the next epoch."""
        for task in reports:
            for partition, report in task.partitions.items():
                if report.event_time is not None and not is_copy(partition):
                    name, _ = split_partition(partition)
                    known = self._event_times.get(name, report.event_time)
                    self._event_times[name] = max(known, report.event_time)

    @property
    def _only(self) -> bool:
        return len(self.topology.sources) == 1

    def start(self) -> None:
        """The first epoch begins now, unless the topology has been started before. Where the clock was put
        back since then, the next epoch is due an interval from now."""
        started, now = self.log.started_at, self.clock()
        if started is None:
            self.log.start(at=now, origin_us=self.origin_us)
        elif (
            self.realtime and (early := self.due_at(self.log.head) - now) > self.topology.spec.epoch_interval
        ):
            logger.warning("the clock was put back, and the input goes on from now", seconds=round(early, 1))
            self.log.start(at=started - early, origin_us=self.origin_us)

    @property
    def realtime(self) -> bool:
        return all(source.params.get("pace", "realtime") == "realtime" for source in self.topology.sources)

    @property
    def finished(self) -> bool:
        """Whether the newest epoch is final."""
        last = self.log.plans.get(self.log.head)
        return last is not None and last.final

    @property
    def ended(self) -> bool:
        """Whether the input has ended with the newest epoch, or before."""
        return self._ended(self.log.plans.get(self.log.head))

    def _ended(self, plan: EpochPlan | None) -> bool:
        if plan is None or plan.final or not self.topology.fed_back:
            return plan is not None and plan.final
        ends = ((reader, plan.slices[name][1]) for name, reader in self._readers.items())
        return all(bool(getattr(reader, "finished", _never)(end)) for reader, end in ends)

    def due_at(self, epoch: int) -> float:
        """When the last tuple of an epoch is due, in Unix seconds."""
        if self.log.started_at is None:
            return float("inf")
        return self.log.started_at + epoch * self.topology.spec.epoch_interval

    def plan_due(self, *, ahead: int, reached: int, after: str = "") -> list[EpochPlan]:
        """Write the epochs that are due to the log; in `fast` pace, `ahead` epochs beyond `reached`, where
        the partitions furthest ahead are. after: where the topology has cycles, which epoch follows the end
        of the input, "" none yet, "open" or "final"."""
        plans: list[EpochPlan] = []
        now = self.clock()
        if self.log.started_at is None:
            return plans
        while True:
            before = plans[-1] if plans else self.log.plans.get(self.log.head)
            ended = self._ended(before)
            if ended and (plans or not after):
                break
            epoch = self.log.head + len(plans) + 1
            if self.realtime and self.due_at(epoch) > now:
                break
            if not self.realtime and epoch > reached + ahead:
                break
            plans.append(self._plan(epoch, before, final=after == "final" if ended else None))
            if len(plans) >= 1000:
                break
        if plans:
            self.log.plan(plans)
        return plans

    def _plan(self, epoch: int, before: EpochPlan | None, *, final: bool | None) -> EpochPlan:
        """final: None while the input goes on; it ends with this epoch if all sources do, but not where rows
        may be on feedback streams then."""
        drained = before.drained + 1 if before is not None and final is not None else 0
        slices: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        waited_for: list[int] = []
        others: list[int] = []
        idle: list[str] = []
        all_ended = True
        for source in self.topology.sources:
            reader = self._readers[source.name]
            start = before.slices[source.name][1] if before else reader.initialOffset()
            end = self._end(source.name, start, epoch)
            slices[source.name] = (start, end)
            ended = bool(getattr(reader, "finished", _never)(end))
            all_ended = all_ended and ended
            if not ended and self._idleness.is_idle(source.name, moved=end != start):
                idle.append(source.name)
            mark = self._watermark(source.name, end, ended)
            (others if ended or source.name in idle else waited_for).append(mark)
        # A source that ended or is idle holds the watermark back no longer, unless that is true of all.
        lowest = min(waited_for) if waited_for else max(others)
        self._tell_idle(idle, before.idle if before else [])
        begins = (self._watermark(name, start, False) for name, (start, _) in slices.items())
        previous = before.watermark if before else min(begins)
        at = self.due_at(epoch) if self.realtime else self.clock()
        return EpochPlan(
            epoch=epoch,
            slices=slices,
            watermark=max(previous, lowest),
            previous_watermark=previous,
            at=at,
            final=(all_ended and not self.topology.fed_back) if final is None else final,
            idle=idle,
            drained=drained,
        )

    @staticmethod
    def _tell_idle(idle: list[str], before: list[str]) -> None:
        for name in set(idle) ^ set(before):
            logger.info("source idle" if name in idle else "source no longer idle", source=name)

    def _end(self, name: str, start: dict[str, Any], epoch: int) -> dict[str, Any]:
        reader = self._readers[name]
        if not hasattr(reader, "advance"):
            takes_start = len(inspect.signature(reader.latestOffset).parameters) > 0
            latest = reader.latestOffset(start, ReadAllAvailable()) if takes_start else reader.latestOffset()
            return dict(latest)
        limit = self.topology.spec.max_epoch_tuples
        if not self.realtime:
            return dict(reader.advance(start, limit))
        interval = self.topology.spec.epoch_interval
        surges = self._surges[name]
        since, until = (
            self._due(name, delivered(interval * number, surges)) for number in (epoch - 1, epoch)
        )
        return dict(reader.advance(start, min(until - since, limit)))

    def _due(self, name: str, seconds: float) -> int:
        """How many tuples arrive in the first `seconds`."""
        reader = self._readers[name]
        if hasattr(reader, "due"):
            return int(reader.due(round(seconds * MICROS)))
        return int(self.options[name]["rate"] * seconds)

    def _watermark(self, name: str, offset: dict[str, Any], ended: bool) -> int:
        reader = self._readers[name]
        if ended and hasattr(reader, "last_ts"):
            return int(reader.last_ts(offset["tuple"]))
        if hasattr(reader, "watermark"):
            return int(reader.watermark(offset["tuple"]))
        known = self._event_times.get(name)
        if known is None:
            return NO_WATERMARK
        # One row from the future must not cut all that come after it.
        newest = min(known, int(self.clock() * MICROS)) if self.realtime else known
        return newest - self._lateness[name]


def _never(offset: dict[str, Any]) -> bool:
    return False


def monotonic_clock() -> Callable[[], float]:
    """Unix time that never steps back, whatever is done to the system clock."""
    base = time.time() - time.monotonic()
    return lambda: base + time.monotonic()
