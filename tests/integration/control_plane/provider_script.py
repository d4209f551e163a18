"""An executable for the provider `script`: it starts node processes on this host and keeps a file for each.

Its directory, `<RESURGE_HOME>/provider`, also holds instructions of a test: with a file `refuse` it acquires
nothing and says why, and with a file `hang` it does not end after it has started a node. `calls` has a line
for each call. It is not idempotent on purpose, so that asking twice for a node starts two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from host.processes import end_session, is_running, kill_session, start_time

HOME = Path(os.environ["RESURGE_HOME"]) / "provider"


def acquire(asked: dict[str, Any]) -> dict[str, Any]:
    if (HOME / "refuse").exists():
        print("the cloud says: no quota left", file=sys.stderr)
        raise SystemExit(3)
    name = asked["node"]["name"]
    command = [sys.executable, "-m", "tests.integration.control_plane.node_process", name]
    command += [os.environ["RESURGE_ZOOKEEPER"], os.environ["RESURGE_SESSION_TIMEOUT"]]
    command += [os.environ["RESURGE_HEARTBEAT_INTERVAL"]]
    with open(HOME / f"{name}.log", "ab") as log:
        node = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    record = {"name": name, "pid": node.pid, "started": start_time(node.pid)}
    (HOME / f"{name}.json").write_text(json.dumps(record))
    while (HOME / "hang").exists():
        time.sleep(0.05)
    return {"state": "started"}


def release(asked: dict[str, Any]) -> dict[str, Any]:
    record = records().get(asked["name"])
    if record is not None:
        end_session(record["pid"], grace=1)
        (HOME / f"{asked['name']}.json").unlink()
    return {}


def listed(_: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "name": name,
                "state": "started" if is_running(record["pid"], record["started"]) else "dead",
                "pid": record["pid"],
            }
            for name, record in records().items()
        ]
    }


def fail(asked: dict[str, Any]) -> dict[str, Any]:
    return {"killed": kill_session(records()[asked["name"]]["pid"]) > 0}


def records() -> dict[str, dict[str, Any]]:
    found = (json.loads(path.read_text()) for path in sorted(HOME.glob("*.json")))
    return {record["name"]: record for record in found}


if __name__ == "__main__":
    action, question = sys.argv[1], json.load(sys.stdin)
    with open(HOME / "calls", "a") as calls:
        print(action, question.get("request") or question.get("name", ""), file=calls)
    actions = {"acquire": acquire, "release": release, "list": listed, "fail": fail}
    print(json.dumps(actions[action](question)))
