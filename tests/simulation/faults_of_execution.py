"""Faults that schedules of epochs, checkpoints and partitions must find."""

from __future__ import annotations

from domain.execution import lanes, reach
from domain.execution.checkpoints import Checkpoints
from domain.execution.draining import Draining
from domain.execution.epoch_machine import EpochMachine
from domain.execution.lanes import Coverage
from domain.execution.leaving import Leaving
from domain.execution.partition import PartitionRuntime
from domain.execution.progress import ProgressTracker
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.driver.task_runs import TaskRuns
from spark_jobs.executor import handover
from spark_jobs.executor.partition_run import PartitionRun
from spark_jobs.executor.returning import Returning
from tests.simulation.seeded_fault import Fault

SINK_FIRST = """\
        elif self.operator.output and not self.copy:
            self.storage.write(plan.epoch, output)
        self.manifest = self.store.commit("""
STATE_FIRST = """\
        try:
            exists = self.store.manifest(plan.epoch) is not None
        except LookupError:
            exists = False
        self.store.commit(state, epoch=plan.epoch, generation=self.layout.generation)
        if self.operator.output and not self.copy and not exists:
            self.storage.write(plan.epoch, output)
        self.manifest = self.store.commit("""
ATTEMPTS_IGNORED = Fault(
    "the attempt of an acknowledgement is ignored",
    Checkpoints,
    "acknowledged",
    "if (ack.generation, ack.attempt) == job}",
    "if ack.generation == pending.generation}",
    "ends",
    found_by=7,
)
EXECUTION = (
    Fault(
        "state is written before the sink, and the sink skipped where state exists",
        PartitionRun,
        "_process",
        SINK_FIRST,
        STATE_FIRST,
        found_by=8,
    ),
    Fault(
        "no restart after a disturbed job of a topology that is not deterministic",
        EpochMachine,
        "_job_ended",
        "if event.disturbed and not self.topology.deterministic:",
        "if False:",
        found_by=33,
    ),
    Fault(
        "nothing is asked of tasks but whether an executor was lost",
        EpochLoop,
        "_disturbed",
        "any(report.repeated for report in reports)",
        "False",
        "marks",
    ),
    Fault(
        "a stage of which a part ran again passes for one that ran once",
        TaskRuns,
        "begin",
        "self._runs.value - before <= tasks",
        "self._runs.value - before <= 2 * tasks",
        "marks",
    ),
    Fault(
        "the generation of an acknowledgement is ignored",
        Checkpoints,
        "acknowledged",
        "if (ack.generation, ack.attempt) == job}",
        "if ack.attempt == pending.attempt}",
        found_by=48,
    ),
    ATTEMPTS_IGNORED,
    Fault(
        "the durable commit of a complete checkpoint is dropped",
        EpochMachine,
        "_checkpoint_ended",
        "done.append(RecordPosition(self.recorded, durable=True))",
        "done.append(RecordPosition(self.recorded, durable=False))",
        found_by=1,
    ),
    Fault(
        "the durable commit of a start from the checkpoint is dropped",
        EpochMachine,
        "_start_again",
        "RecordPosition(self.recorded, durable=True)",
        "RecordPosition(self.recorded, durable=False)",
        found_by=1,
    ),
    Fault(
        "duplicates are not dropped",
        PartitionRuntime,
        "_batch",
        "if batch.epoch <= last or batch.epoch == self._processing or batch.source in arrived:",
        "if batch.epoch == self._processing:",
    ),
    Fault(
        "progress is advanced an epoch too far",
        ProgressTracker,
        "take",
        "max(self.progress[partition], epoch)",
        "max(self.progress[partition], epoch + 1)",
    ),
    Fault(
        "any acknowledgement completes a checkpoint",
        Checkpoints,
        "acknowledged",
        "if all(partition in acks",
        "if any(partition in acks",
        found_by=1,
    ),
    Fault(
        "a source reads three tuples again",
        EpochPlanner,
        "_plan",
        "start = before.slices[source.name][1] if before",
        'start = {"tuple": max(0, before.slices[source.name][1]["tuple"] - 3)} if before',
        "engine",
    ),
    Fault(
        "a partition that was to be restored goes on with what its node has",
        PartitionRun,
        "_restore",
        "if self.partition in self.job.restore:",
        "if False:",
        found_by=1,
    ),
    Fault(
        "what a plan moves is restored only if the plan says so",
        ProgressTracker,
        "adopt",
        "self.put_back(moved.union(plan.put_back, unassigned), self.checkpoint)",
        "self.put_back(unassigned.union(plan.put_back), self.checkpoint)",
        found_by=118,
    ),
    Fault(
        "the durable commit of a start without the state is dropped",
        EpochMachine,
        "_take",
        "durable=bool(missing or begun_anew)",
        "durable=False",
        found_by=10,
    ),
    Fault(
        "a plan is applied without a word of it in the log",
        EpochMachine,
        "_adopt",
        "done.append(RecordPlan(plan.generation, self.recorded, self.tracker.homes))",
        "pass",
    ),
    Fault(
        "state is trimmed up to the committed epoch, whatever the checkpoint",
        ProgressTracker,
        "needed",
        "return min(self.committed, self.checkpoint), [latest]",
        "return self.committed, [latest]",
    ),
    Fault(
        "the log is trimmed up to the committed epoch",
        EpochMachine,
        "_checkpoint_ended",
        "below = min(kept[0] if kept else 0, self.recorded.committed)",
        "below = self.recorded.committed",
        found_by=1,
    ),
    Fault(
        "buffers are believed in after their partition was put back",
        Coverage,
        "forget",
        "self.runs.pop(partition, None)",
        "pass",
        found_by=12,
    ),
    Fault(
        "operators that are not deterministic compute old epochs again in forks",
        ProgressTracker,
        "contradicts",
        "if lane is None or self.topology.deterministic:",
        "if True:",
        found_by=1,
    ),
    Fault(
        "operators that are not deterministic compute again what others have consumed",
        ProgressTracker,
        "contradicts",
        "return forks or consumed_before(self.topology, lane.starts, self.progress)",
        "return forks",
        "moves",
        found_by=55,
    ),
    Fault(
        "a plan is applied again by a driver started anew",
        EpochMachine,
        "_adopt",
        "known = plan.generation <= self.generation",
        "known = False",
    ),
    Fault(
        "an epoch is processed without those inputs that have not arrived",
        PartitionRuntime,
        "missing",
        "return [source for source in self.inputs if source not in arrived]",
        "return [] if arrived else list(self.inputs)",
    ),
    Fault(
        "inputs are processed as they arrive, not in the order of their partitions",
        PartitionRuntime,
        "_next",
        "tuple(arrived[source] for source in self.inputs)",
        "tuple(arrived.values())",
        found_by=28,
    ),
    Fault(
        "the number of a checkpoint of an undone history is used again, and attempts are ignored",
        EpochMachine,
        "_work",
        "max(self.checkpoints.highest, self._barred)",
        "self.checkpoints.latest",
        besides=ATTEMPTS_IGNORED,
        found_by=5,
    ),
    Fault(
        "the number of a checkpoint is used again after Spark gave up its job, and attempts are ignored",
        EpochMachine,
        "_job_failed",
        "self._barred = max(self._barred, self._running.last)",
        "pass",
        besides=ATTEMPTS_IGNORED,
        found_by=71,
    ),
    Fault(
        "state is taken to be where it could not be brought",
        EpochMachine,
        "_handed_over",
        "self._adopt(plan, self._news, event.partitions)",
        "self._adopt(plan, self._news, plan.assignment.keys())",
        "moves",
    ),
    Fault(
        "only the newest state of a partition is handed over",
        handover,
        "receive_state",
        "range(last if since is None else since + 1, last + 1)",
        "range(last, last + 1)",
        "moves",
        found_by=0,
    ),
    Fault(
        "a new node keeps what it has of an undone history",
        handover,
        "receive_state",
        "storage.restore(since)",
        "pass",
        "moves",
        found_by=2,
    ),
    Fault(
        "a plan is applied while a replay runs under the one before",
        EpochMachine,
        "_in_the_way",
        "or news.misplaced or plan is not None",
        "",
        found_by=106,
    ),
    Fault(
        "old states go while a replay works on them",
        EpochMachine,
        "_job",
        "trim = self._trim and self.replay.running is None",
        "trim = self._trim",
        found_by=14,
    ),
    Fault(
        "feedback streams bring what was sent an epoch too early",
        Returning,
        "_send",
        "storage.store.manifest(epoch - 1)",
        "storage.store.manifest(max(0, epoch - 2))",
        "cycles",
    ),
    Fault(
        "a checkpoint lacks what is on feedback streams",
        PartitionRun,
        "_process",
        "if self.sends_back:",
        "if self.sends_back and plan.epoch != self.job.checkpoint:",
        "cycles",
    ),
    Fault(
        "what feedback streams brought is not there for an epoch that is computed again",
        Returning,
        "_send",
        "if self._is_read_in(epoch):",
        "if epoch > self.level.job.progress[self.partition]:",
        "cycles",
        found_by=3,
    ),
    Fault(
        "a lane goes on although feedback streams have nothing for its epochs",
        lanes,
        "lane_between",
        "1 + min(progress[sender] for sender in returns)",
        "2 + min(progress[sender] for sender in returns)",
        "cycles",
    ),
    Fault(
        "the partitions of a cycle go on without one that is absent",
        reach,
        "_level_out",
        "for name in component.operators:\n        least",
        "for name in ():\n        least",
        "cycles",
        found_by=44,
    ),
    Fault(
        "what a partition sent back is read before its checkpoint is there",
        Returning,
        "_send",
        "if self.partition in self.level.job.restore:",
        "if False:",
        "cycles",
    ),
    Fault(
        "windows close while rows go round",
        Draining,
        "follows",
        "self.in_transit() == 0",
        "True",
        "cycle ends",
        found_by=4,
    ),
    Fault(
        "of several checkpoints under way the later ones go on although their history is undone",
        Checkpoints,
        "fail",
        "list(self.under_way)",
        "self.under_way[:1]",
        "modes",
        found_by=29,
    ),
    Fault(
        "epochs go on while a synchronous checkpoint is stored",
        EpochMachine,
        "_work",
        " or self.checkpoints.stops",
        "",
        "modes",
    ),
    Fault(
        "a checkpoint counts that the log does not know of",
        EpochMachine,
        "__init__",
        "checkpoint=recorded.position.checkpoint, generation",
        "checkpoint=checkpoints.latest, generation",
        "stops",
        found_by=3,
    ),
    Fault(
        "a topology that is undeployed waits until it is well",
        Leaving,
        "ends",
        " or not well or at - self.since > timeout",
        "",
        "stops",
        found_by=6,
    ),
)
