"""The foreground output of `make up`: a line for each change that matters to an operator."""

from __future__ import annotations

import time

from supervision.access import Access
from supervision.installation import Installation
from supervision.rest import Rest, RestError
from supervision.screen import Progress, topology_line
from supervision.supervisor import Supervisor

INTERVAL = 2.0
# Incidents of which a change is told; older ones have ended.
NEWEST = 100


def follow(installation: Installation, access: Access) -> None:
    """Show changes until the supervisor is gone."""
    progress = Progress()
    supervisor = Supervisor(installation.home)
    rest = Rest(access.url, access.token)
    shown: dict[str, str] = {}
    while supervisor.is_running():
        try:
            lines = _fleet(rest)
        except RestError as error:
            lines = {"web": f"web server: {error}"}
        for state in supervisor.states():
            if state.state in ("BACKOFF", "FATAL", "EXITED"):
                lines[state.name] = f"process {state.name}: {state.state.lower()}, see its log"
            elif state.name in shown:
                lines[state.name] = f"process {state.name}: runs again"
        for key, text in lines.items():
            if shown.get(key) != text:
                progress.say(text)
        shown |= lines
        time.sleep(INTERVAL)


def _fleet(rest: Rest) -> dict[str, str]:
    """One line per topology and open incident, one for all nodes."""
    lines: dict[str, str] = {}
    for row in rest.listing("topologies/"):
        lines["t " + str(row["name"])] = topology_line(row)
    counts: dict[str, int] = {}
    for node in rest.listing("nodes/"):
        if node["state"] != "left":
            counts[str(node["state"])] = counts.get(str(node["state"]), 0) + 1
    if counts:
        lines["nodes"] = "nodes: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    for incident in rest.listing(f"incidents/?ordering=-number&limit={NEWEST}"):
        lines[f"i {incident['number']}"] = f"incident {incident['number']}: {incident['state']}"
    return lines
