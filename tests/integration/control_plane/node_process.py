"""A node as ZooKeeper sees one: registers and sends heartbeats until it is killed.

python -m tests.integration.control_plane.node_process ID HOSTS SESSION_TIMEOUT INTERVAL
"""

from __future__ import annotations

import os
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from coordination.paths import Paths
from coordination.session_guard import SessionGuard
from domain.messages import NodeRegistration, NodeStats, encode


def main(name: str, hosts: str, session_timeout: float, interval: float) -> None:
    client = KazooClient(
        hosts=hosts,
        timeout=session_timeout,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0),
        command_retry=KazooRetry(max_tries=0),
    )
    guard = SessionGuard(client, session_timeout=session_timeout)
    client.start(timeout=30)
    registered = ""
    while True:
        guard.check()
        client_id = client.client_id
        session = f"{client_id[0]:x}" if client_id else ""
        try:
            if client.state == KazooState.CONNECTED and session:
                if session != registered:
                    _register(client, name, session)
                    registered = session
                stats = NodeStats(
                    id=name, at=time.time(), session=session, cpu_percent=5.0, memory_bytes=10**8,
                    disk_free_bytes=10**10,
                )  # fmt: skip
                client.ensure_path_async(Paths.stats(name)).get(timeout=3)
                client.set_async(Paths.stats(name), encode(stats)).get(timeout=3)
        except (KazooException, KazooTimeoutError, ConnectionError) as error:
            print(repr(error), flush=True)
        time.sleep(interval)


def _register(client: KazooClient, name: str, session: str) -> None:
    value = encode(
        NodeRegistration(
            id=name, address="127.0.1.1", rack="rack-a", slots=2, capacity=100, pid=os.getpid(),
            session=session, registered_at=time.time(),
        )
    )  # fmt: skip
    try:
        client.create(Paths.node(name), value, ephemeral=True, makepath=True)
    except NodeExistsError:
        client.delete(Paths.node(name))
        client.create(Paths.node(name), value, ephemeral=True, makepath=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
