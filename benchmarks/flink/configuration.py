"""Flink's configuration, tuned for a fast recovery on small nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    rpc: int
    rest: int


# Each value differs from Flink's default for the reason given.
TUNING: Mapping[str, str] = {
    # Fewer nodes mean a lower parallelism, not a job that waits for replacements.
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "1 s",
    # The job uses a replacement at once, and is not restarted more often than every ten seconds for it.
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "1 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "10 s",
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": "10 s",
    # A lost node is noticed within seconds; a closed connection counts as soon as one message fails.
    "heartbeat.interval": "1 s",
    "heartbeat.timeout": "3 s",
    "heartbeat.rpc-failure-threshold": "1",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "100 ms",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.tolerable-failed-checkpoints": "1000",
    # State is a few hundred bytes per hashtag: it fits into the heap, which is far cheaper than RocksDB.
    "state.backend.type": "hashmap",
    # Compressed state is read in blocks, other state byte by byte, which costs ten times the CPU.
    "execution.checkpointing.snapshot-compression": "true",
    # Operators are chained and keep none of the objects they get.
    "pipeline.object-reuse": "true",
    # The job's classes are in the class path, and so in the archive of classes.
    "classloader.resolve-order": "parent-first",
    # One slot per node: the whole job runs in it, with as many subtasks as there are nodes.
    "taskmanager.numberOfTaskSlots": "1",
    "taskmanager.memory.managed.size": "0",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.framework.heap.size": "64 mb",
    "taskmanager.memory.framework.off-heap.size": "64 mb",
    "taskmanager.memory.network.min": "32 mb",
    "taskmanager.memory.network.max": "32 mb",
    "taskmanager.memory.jvm-metaspace.size": "128 mb",
    "taskmanager.memory.jvm-overhead.min": "64 mb",
    "taskmanager.memory.jvm-overhead.max": "64 mb",
    "taskmanager.cpu.cores": "1",
}
TASK_HEAP_MB = 640
HEAP_MB = TASK_HEAP_MB + 64


def configuration(*, home: Path, ports: Ports, parallelism: int) -> dict[str, str]:
    """All options of a cluster whose files are below `home`."""
    return {
        **TUNING,
        "taskmanager.memory.task.heap.size": f"{TASK_HEAP_MB} mb",
        "parallelism.default": str(parallelism),
        "jobmanager.rpc.address": ADDRESS,
        "jobmanager.bind-host": ADDRESS,
        "jobmanager.rpc.port": str(ports.rpc),
        "rest.address": ADDRESS,
        "rest.bind-address": ADDRESS,
        "rest.port": str(ports.rest),
        "taskmanager.host": ADDRESS,
        "taskmanager.bind-host": ADDRESS,
        "execution.checkpointing.dir": (home / "checkpoints").as_uri(),
        "io.tmp.dirs": str(home / "tmp"),
        "web.upload.dir": str(home / "tmp"),
    }


def yaml_text(options: Mapping[str, str]) -> str:
    """The file `config.yaml`: one quoted value per option."""
    return "".join(f"{name}: '{value}'\n" for name, value in options.items())


LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} %m%n
"""
