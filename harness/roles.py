"""Which process of an installation does what, by its command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROLES = {
    "deploy.SparkSubmit": "driver-jvm",
    "QuorumPeerMain": "zookeeper",
    "redis-server": "redis",
    "deploy.master.Master": "spark-master",
    "CoarseGrainedExecutorBackend": "executor",
    "spark_jobs.executor.preloaded": "operators",
    "spark_jobs.driver": "driver",
    "spark_jobs.agent.keeper": "keeper",
    "spark_jobs.agent": "node",
    "dashboard.asgi": "web",
    "manage.py launcher": "launcher",
    "-Q detection": "detection",
    "-Q recovery": "recovery",
    "-Q webhooks": "webhooks",
    "celery_app beat": "beat",
}
"""Part of a command line, the first that fits, and which kind of process has it."""

ON_NODES = ("node", "executor", "operators", "keeper")
OF_DRIVERS = ("driver", "driver-jvm")


def command_line(pid: int) -> str:
    """Empty if there is no such process any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def role_of(pid: int) -> str:
    """Empty for another process, such as the one that supervises."""
    command = command_line(pid)
    return next((role for mark, role in ROLES.items() if mark in command), "")


def by_role(pids: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for pid in pids:
        if role := role_of(pid):
            found.setdefault(role, []).append(pid)
    return found
