"""Faults that schedules with replicas and tentative output must find."""

from __future__ import annotations

from domain.execution.branches import Branches
from domain.execution.progress import ProgressTracker
from domain.execution.shadow_turns import ShadowTurns
from domain.execution.shadows import Shadows
from spark_jobs.executor.partition_run import PartitionRun
from tests.simulation.seeded_fault import Fault

COPIES = (
    Fault(
        "a shadow takes over as if it were as far as its partition",
        ProgressTracker,
        "take_over",
        "self.progress[partition] = self.shadows.progress[shadow_of(partition)]",
        "pass",
        "replicas",
        found_by=5,
    ),
    Fault(
        "a shadow counts as an epoch further than it is",
        Shadows,
        "take",
        "max(self.progress[shadow], epoch)",
        "max(self.progress[shadow], epoch + 1)",
        "replicas",
        found_by=1,
    ),
    Fault(
        "a shadow that takes over may be further than its partition",
        Shadows,
        "keep_behind",
        "min(epoch, progress[partition_of(shadow)])",
        "epoch",
        "replicas",
        found_by=53,
    ),
    Fault(
        "a takeover is not in the log when others depend on it",
        ShadowTurns,
        "take_over",
        "RecordHomes(tracker.position, dict(tracker.homes)),",
        "",
        "replicas",
        found_by=3,
    ),
    Fault(
        "a shadow keeps its place although states before a newer checkpoint are trimmed",
        Shadows,
        "completed",
        "epoch < checkpoint",
        "False",
        "replicas",
        found_by=2,
    ),
    Fault(
        "a shadow that began anew takes what an earlier job found",
        Shadows,
        "take",
        "shadow not in self.homes or self.restore.get(shadow) not in (None, restored.get(shadow))",
        "shadow not in self.homes",
        "replicas",
        found_by=5,
    ),
    Fault(
        "a shadow acts before it has its state",
        Shadows,
        "ready",
        "and shadow not in self.restore",
        "",
        "replicas",
        found_by=12,
    ),
    Fault(
        "operators that are not deterministic have shadows",
        ShadowTurns,
        "_wanted",
        "news.replicas if self.topology.deterministic else {}",
        "news.replicas",
        "replicas",
    ),
    Fault(
        "a shadow writes to the sink",
        PartitionRun,
        "_process",
        "elif self.operator.output and not self.copy:",
        "elif self.operator.output:",
        "replicas",
        found_by=1,
    ),
    Fault(
        "a branch writes its rows as final ones",
        PartitionRun,
        "_process",
        "self.storage.write_tentative(plan.epoch, output, fidelity)",
        "self.storage.write(plan.epoch, output)",
        "tentative",
        found_by=1,
    ),
    Fault(
        "a branch reads from a partition that has caught up, and from its branch",
        Branches,
        "beside",
        "if partition_of(name) in giving or",
        "if",
        "tentative",
        found_by=5,
    ),
    Fault(
        "a branch that is further than what it reads goes on",
        Branches,
        "beside",
        "or self.progress[name] > front",
        "",
        "tentative",
        found_by=116,
        besides=Fault(
            "it is not begun anew",
            Branches,
            "_able",
            "self.progress[branch] > front",
            "False",
        ),
    ),
    Fault(
        "a branch leaves a snapshot",
        PartitionRun,
        "_run",
        "if self.job.checkpoint and self.advances and not self.copy:",
        "if self.job.checkpoint and self.advances:",
        "tentative",
    ),
)
