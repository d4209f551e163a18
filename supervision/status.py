"""`make status`: every process with its state, then topologies and nodes; exit code 0 when all is well.

Dead nodes are for the recovery; a topology that is to run and has no driver is not well.
"""

from __future__ import annotations

import sys
from pathlib import Path

from host.detached import DetachedProcesses
from supervision.access import access_read
from supervision.readiness import NotReadyError
from supervision.rest import Rest, RestError
from supervision.supervisor import Supervisor


def status_show(home: Path) -> int:
    supervisor = Supervisor(home)
    try:
        if not supervisor.is_running():
            sys.stdout.write(f"Resurge is not running in {home} (`make up` starts it)\n")
            return 3
        states = supervisor.states()
    except NotReadyError as error:
        sys.stdout.write(f"{error} (`make down` ends what it runs)\n")
        return 1
    rows = [(state.name, state.state.lower(), str(state.pid or ""), state.text) for state in states]
    well = all(state == "running" for _, state, _, _ in rows)
    dead: set[str] = set()
    driven: set[str] = set()
    for kind in ("drivers", "nodes"):
        for record in DetachedProcesses(home / "run" / kind).all():
            name = f"driver {record.name}" if kind == "drivers" else record.name
            rows.append((name, "running" if record.alive else "dead", str(record.pid), ""))
            if kind == "drivers":
                (driven if record.alive else dead).add(record.name)
    for name, state, pid, text in rows:
        sys.stdout.write(f"{name:<24} {state:<10} {pid:>8}  {text}\n")
    access = access_read(home)
    needed = dead  # all, where the control plane does not say which
    if access is not None:
        try:
            needed = _fleet_show(Rest(access.url, access.token))
        except RestError as error:
            sys.stdout.write(f"\ncontrol plane: {error}\n")
            well = False
        for name in sorted(needed - driven - dead):
            sys.stdout.write(
                f"no driver of {name}: the launcher starts it (again), see make logs NAME=driver.{name}\n"
            )
        sys.stdout.write(f"\n{access.url}  (user {access.user}, password in {home}/run/access.json)\n")
    return 0 if well and needed <= driven else 1


def _fleet_show(rest: Rest) -> set[str]:
    """Show topologies and nodes; returns the topologies that need a driver."""
    sys.stdout.write("\n")
    topologies = rest.listing("topologies/")
    for row in topologies:
        sys.stdout.write(
            f"{row['name']:<24} {row['status']:<10} "
            f"{row['queries_available']}/{row['queries_total']} queries available, "
            f"epoch {row['committed_epoch']}, checkpoint {row['checkpoint_epoch']}\n"
        )
    for node in rest.listing("nodes/"):
        sys.stdout.write(f"{node['name']:<24} {node['state']:<10} {node['rack']}\n")
    return {row["name"] for row in topologies if row["desired"] == "running" and row["status"] != "completed"}
