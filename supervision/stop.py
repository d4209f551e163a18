"""Ending all processes of an installation."""

from __future__ import annotations

import signal
import time
import xmlrpc.client
from pathlib import Path

from host.detached import DetachedProcesses
from host.processes import processes_of_program, processes_with_environment, send
from supervision.installation import INSTANCE, recorded_variables
from supervision.readiness import NotReadyError
from supervision.screen import Progress
from supervision.supervisor import Supervisor
from supervision.turns import turn_to_stop
from workers.providers.cgroups import groups_remove

# The processes that watch nodes end first, or they would take the end of the nodes for a failure. The
# launcher then ends drivers and nodes in order (it finds `run/stopping`).
ORDER = (
    ("detection", "recovery", "webhooks", "beat"),
    ("launcher",),
    ("web",),
    ("spark-master", "redis", "zookeeper"),
)

ENDS_WITHIN = 60.0
"""Seconds that killed processes may take to end: on a busy host those with much memory need some."""


def stop(home: Path, progress: Progress) -> bool:
    """End everything; False if nothing was running. Processes that do not end in time are killed."""
    with turn_to_stop(home):
        return _stop(home, progress)


def left_in_part(home: Path) -> bool:
    """Whether an interrupted start or stop has left some of the processes. Waits for a stop that goes on."""
    with turn_to_stop(home):
        states = {one.state for one in Supervisor(home).states()}
        return bool(states) and ("STOPPED" in states or (home / "run" / "stopping").exists())


def _stop(home: Path, progress: Progress) -> bool:
    supervisor = Supervisor(home)
    ran = False
    try:
        if ran := supervisor.is_running():
            _end_in_order(supervisor, home, progress)
    except NotReadyError as error:
        progress.say(f"{error}; all are killed")
    swept = leftovers_end(home, progress)
    (home / "run" / "stopping").unlink(missing_ok=True)
    return ran or swept


def _end_in_order(supervisor: Supervisor, home: Path, progress: Progress) -> None:
    """Raises `NotReadyError` where the daemon does not answer, or does not end."""
    (home / "run" / "stopping").touch()
    known = {state.name for state in supervisor.states()}
    for step in ORDER:
        names = [name for name in step if name in known]
        progress.say("ending " + ", ".join(names))
        try:
            supervisor.stop(names)
        except (NotReadyError, OSError, xmlrpc.client.Error) as error:
            progress.say(f"{error}; it is killed")
    supervisor.shut_down()


def leftovers_end(home: Path, progress: Progress) -> bool:
    """Kill leftovers of an earlier start: every process with its instance mark in the environment and its
    Redis, all at once, since a launcher that went on would take nodes that end for failed ones and delete
    their disks; then what is left of recorded drivers, nodes and operations."""
    found = False
    kinds = {
        kind: DetachedProcesses(home / "run" / kind)
        for kind in ("drivers", "nodes", "verify-operations", "savepoint-operations")
    }
    for processes in kinds.values():
        for record in processes.all():
            if record.alive:
                progress.say(f"ending {record.name}, left over")
    mark = recorded_variables(home).get(INSTANCE, "none")
    deadline = time.monotonic() + ENDS_WITHIN
    while (left := _left(home, mark)) and time.monotonic() < deadline:
        found = True
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.1)
    for kind, processes in kinds.items():
        for record in processes.all():
            found = bool(processes.kill(record.name)) or found
            if kind != "nodes":
                processes.forget(record.name)
    groups_remove(home)
    return found


def _left(home: Path, mark: str) -> list[int]:
    """Redis writes its title over its environment, so it is known by where it works."""
    return [
        *processes_with_environment(f"{INSTANCE}={mark}"),
        *processes_of_program("redis-server", home / "redis"),
    ]
