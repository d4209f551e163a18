"""A node as ZooKeeper sees one: registers and sends heartbeats until it is killed.

python -m tests.integration.control_plane.node_process ID HOSTS SESSION_TIMEOUT INTERVAL
"""

from __future__ import annotations

import os
import sys
import time

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Session
from domain.messages import NodeRegistration, NodeStats


def main(name: str, hosts: str, session_timeout: float, interval: float) -> None:
    zookeeper = Session(hosts, session_timeout)
    zookeeper.start()
    zookeeper.require_connected(30)
    registered = ""
    while True:
        zookeeper.check()
        session = zookeeper.session
        try:
            if zookeeper.connected and session:
                if session != registered and zookeeper.claim(Paths.node(name), registration(name, session)):
                    registered = session
                stats = NodeStats(
                    id=name, at=time.time(), session=session, cpu_percent=5.0, memory_bytes=10**8,
                    disk_free_bytes=10**10,
                )  # fmt: skip
                zookeeper.put(Paths.stats(name), stats)
        except CoordinationUnavailableError as error:
            print(repr(error), flush=True)
        time.sleep(interval)


def registration(name: str, session: str) -> NodeRegistration:
    return NodeRegistration(
        id=name, address="127.0.1.1", rack="rack-a", slots=2, capacity=100, pid=os.getpid(),
        session=session, registered_at=time.time(),
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
