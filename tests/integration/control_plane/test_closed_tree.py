"""The product's znodes and its Redis are closed to clients without the secret; real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from coordination.paths import ROOT, Paths
from coordination.session import CoordinationRefusedError, Session
from domain.messages import Control, Plan
from host import environment
from supervision.zookeeper import tree_close
from tests.integration.control_plane.conftest import servers_running
from tests.integration.control_plane.stack import Stack

pytestmark = pytest.mark.integration

SECRET, OTHER = "the-secret-of-this-tree", "the-secret-of-another-tree"
LEFT_OPEN = Paths.plan("from-an-earlier-version")


def connected(hosts: str, secret: str) -> Session:
    made = Session(hosts, 4.0, secret=secret)
    made.start()
    made.require_connected(30)
    return made


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Of this file alone: what is closed here stays closed to the tests of others."""
    with servers_running(tmp_path_factory.mktemp("closed")) as stack:
        yield stack


@pytest.fixture(scope="module")
def hosts(servers: Stack) -> str:
    """A server whose tree was closed at a start, and held znodes that an earlier version had left open."""
    hosts = servers.environment["RESURGE_ZOOKEEPER"]
    with closing(connected(hosts, "")) as earlier:
        earlier.put(LEFT_OPEN, Plan(generation=1, kind="deploy", assignment={}))
    tree_close(
        environment.read({"RESURGE_ZOOKEEPER": hosts, "RESURGE_ZOOKEEPER_SECRET": SECRET}), whole_server=True
    )
    return hosts


@pytest.fixture
def own(hosts: str) -> Iterator[Session]:
    with closing(connected(hosts, SECRET)) as session:
        session.put(Paths.control("t"), Control(paused=True))
        yield session


@pytest.fixture(params=["nothing", "another secret"])
def stranger(hosts: str, request: pytest.FixtureRequest) -> Iterator[KazooClient]:
    known = [("digest", f"resurge:{OTHER}")] if request.param == "another secret" else None
    client = KazooClient(hosts, timeout=4.0, auth_data=known)
    client.start(timeout=30)
    yield client
    client.stop()
    client.close()


def test_a_stranger_reads_and_writes_nothing(own: Session, stranger: KazooClient) -> None:
    assert own.claim(Paths.stats("node-1"), Control())
    for path in (ROOT, Paths.TOPOLOGIES, Paths.control("t"), Paths.stats("node-1"), LEFT_OPEN):
        for attempt in (stranger.get, stranger.get_children, stranger.get_acls):
            with pytest.raises(NoAuthError):
                attempt(path)
        for attempt in (stranger.set, lambda path, value: stranger.create(f"{path}/evil", value)):
            if not (path == Paths.stats("node-1") and attempt is not stranger.set):  # ephemeral: no children
                with pytest.raises(NoAuthError):
                    attempt(path, b"evil")
    for path in (Paths.control("t"), Paths.stats("node-1"), LEFT_OPEN):
        with pytest.raises(NoAuthError):
            stranger.delete(path)


def test_a_stranger_creates_nothing_beside_the_tree(own: Session, stranger: KazooClient) -> None:
    for path in ("/evil", "/zookeeper/quota/evil"):
        with pytest.raises(NoAuthError):
            stranger.create(path, b"evil")


def test_the_product_goes_on_with_what_an_earlier_version_left(own: Session) -> None:
    stored = own.get(LEFT_OPEN, Plan)
    assert stored is not None
    assert stored.value.generation == 1
    own.delete_tree(Paths.topology("t"))


def test_a_process_with_another_secret_is_told_so(own: Session, hosts: str) -> None:
    with closing(connected(hosts, OTHER)) as session:
        with pytest.raises(CoordinationRefusedError, match="made with another RESURGE_ZOOKEEPER_SECRET"):
            session.get(Paths.control("t"), Control)
        with pytest.raises(CoordinationRefusedError, match="every process needs the same"):
            session.put(Paths.control("t"), Control())
        with pytest.raises(CoordinationRefusedError):
            session.restrict(ROOT)


@pytest.mark.parametrize("password", [None, "guessed"])
def test_redis_answers_those_with_the_password_only(servers: Stack, password: str | None) -> None:
    stranger = redis.Redis(port=servers.ports["redis"], password=password)
    with closing(stranger), pytest.raises(redis.AuthenticationError):
        stranger.ping()


@pytest.mark.parametrize(
    "command", ["CONFIG GET *", "FLUSHALL", "DEBUG SLEEP 0", "MODULE LIST", "KEYS *", "SHUTDOWN", "MONITOR"]
)
def test_not_even_the_product_may_change_redis(servers: Stack, command: str) -> None:
    with closing(redis.Redis.from_url(servers.environment["RESURGE_REDIS_URL"])) as own:
        assert own.ping()
        with pytest.raises(redis.ResponseError, match=r"permission|not allowed"):
            own.execute_command(*command.split())  # type: ignore[no-untyped-call]  # redis has no types here
