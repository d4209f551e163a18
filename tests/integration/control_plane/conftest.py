"""A ZooKeeper and a Redis alone, for tests that call the workers' functions in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from kazoo.client import KazooClient

from coordination.paths import ROOT
from harness.eventually import eventually
from tests.integration.control_plane.stack import Stack
from tests.unit.controlplane.conftest import sent_tasks  # noqa: F401  (fixture)
from tests.unit.controlplane.incidents.conftest import deployed  # noqa: F401  (fixture)
from workers.zookeeper import WorkerSession


@contextmanager
def servers_running(home: Path) -> Iterator[Stack]:
    stack = Stack(home)
    try:
        stack.start("zookeeper")
        stack.start("redis")
        yield stack
    finally:
        stack.stop_all()


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Of all files: each start takes CPU. Tests begin with an empty tree (`coordination`) and an empty Redis
    (`stream`); what shuts others out has servers of its own (`test_closed_tree`)."""
    with servers_running(tmp_path_factory.mktemp("servers")) as stack:
        yield stack


@pytest.fixture
def coordination(servers: Stack) -> Iterator[WorkerSession]:
    """A connected session on an empty tree."""
    with closing(WorkerSession(f"127.0.0.1:{servers.ports['zookeeper']}", 4.0)) as session:
        session.start()
        session.require_connected(30)
        session.delete_tree(ROOT)
        yield session


@pytest.fixture
def raw(servers: Stack) -> Iterator[KazooClient]:
    """A client that writes any bytes."""
    client = KazooClient(f"127.0.0.1:{servers.ports['zookeeper']}", timeout=4.0)
    client.start(timeout=30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def stream(servers: Stack, settings: Any) -> redis.Redis:
    """An empty Redis, which the settings name."""
    url = servers.environment["RESURGE_REDIS_URL"]
    connection = redis.Redis.from_url(url)

    eventually(connection.ping, "redis", 20, not_yet=(redis.RedisError,))
    everything_delete(connection)
    settings.RESURGE = type("Settings", (), {**_slots(settings.RESURGE), "redis_url": url})()
    return connection


def everything_delete(connection: redis.Redis) -> None:
    """FLUSHALL is off."""
    for key in list(connection.scan_iter()):
        connection.delete(key)


def _slots(environment: Any) -> dict[str, Any]:
    return {name: getattr(environment, name) for name in type(environment).__slots__}
