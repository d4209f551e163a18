"""What closes a lifeline, and what that shows, on real sockets and with real processes."""

from __future__ import annotations

import errno
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from domain.messages import NodeRegistration
from domain.recovery.liveness import LifelineCut, LifelineRestored
from harness.eventually import eventually
from host.environment import ROOT
from spark_jobs.agent.lifeline import PLACES, Lifeline
from workers import lifelines
from workers.lifelines import Lifelines

AGENT = """
import sys, time
from spark_jobs.agent.lifeline import Lifeline
print(Lifeline(sys.argv[1]).port, flush=True)
time.sleep(600)
"""


def registration(name: str, address: str, port: int, *, session: str = "a", pid: int = 1) -> NodeRegistration:
    return NodeRegistration(
        id=name, address=address, rack="r", slots=1, capacity=100, pid=pid, session=session,
        registered_at=1.0, lifeline=port,
    )  # fmt: skip


class Agent:
    """A process with a lifeline and nothing else."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT, address], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def registered(self, name: str, session: str = "a") -> NodeRegistration:
        return registration(name, self.address, self.port, session=session, pid=self.process.pid)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def agents() -> Iterator[list[Agent]]:
    """Two processes; each test may end one at most, as the last one that uses it."""
    made = [Agent("127.0.0.1"), Agent("127.0.0.2")]
    yield made
    for one in made:
        one.end()


class Watched:
    """Lifelines, and what they tell."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.lines = Lifelines(time.monotonic, lambda: self.calls.put(None))
        self.lines.start()

    def follow(self, *registrations: NodeRegistration) -> None:
        self.lines.follow(registrations)
        ports = {one.id for one in registrations if one.lifeline}
        eventually(lambda: self.open() == ports, f"connections to {ports}")

    def open(self) -> set[str]:
        lines = dict(self.lines._lines)
        return {node for node, line in lines.items() if line.stage == "open"}

    def attempts(self, node: str) -> int:
        return self.lines._lines[node].attempts

    def told(self) -> LifelineCut | LifelineRestored:
        self.calls.get(timeout=30)
        (news,) = self.lines.news()
        return news


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.lines.finish()
    assert not made.lines.is_alive()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """An agent's port in the hands of the test."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(30)
        yield made


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


# ---- the coordinator's side ----------------------------------------------------------------------


def test_a_process_that_froze_shows_nothing_and_one_that_was_killed_is_refused(
    watched: Watched, agents: list[Agent]
) -> None:
    frozen, killed = agents
    watched.follow(frozen.registered("n1"), killed.registered("n2"))
    frozen.process.send_signal(signal.SIGSTOP)
    killed.process.send_signal(signal.SIGKILL)
    told = watched.told()
    assert isinstance(told, LifelineCut)
    assert (told.node, told.session) == ("n2", "a")
    assert watched.open() == {"n1"}
    assert watched.lines.news() == []
    frozen.process.send_signal(signal.SIGCONT)


def test_a_connection_that_closes_and_can_be_made_again_shows_nothing(
    watched: Watched, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifelines, "PAUSES", (0.0,))
    watched.follow(registration("n1", "127.0.0.1", port_of(server)))
    connection, _ = server.accept()
    connection.close()
    again, _ = server.accept()
    eventually(lambda: watched.open() == {"n1"}, "another connection")
    assert watched.lines.news() == []
    again.close()


def test_a_slow_name_server_delays_only_what_it_is_asked_for(
    watched: Watched, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, look_up = threading.Event(), socket.getaddrinfo

    def slow(host: str, port: int, *, flags: int = 0, **options: Any) -> Any:
        if host == "node.example":
            if flags & socket.AI_NUMERICHOST:
                raise socket.gaierror(socket.EAI_NONAME, "not a number")
            assert answers.wait(30)
            host = "127.0.0.1"
        return look_up(host, port, flags=flags, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    port = port_of(server)
    both = [registration("n1", "node.example", port), registration("n2", "127.0.0.1", port)]
    try:
        watched.lines.follow(both)
        eventually(lambda: watched.open() == {"n2"}, "a connection to the other node")
    finally:
        answers.set()
    eventually(lambda: watched.open() == {"n1", "n2"}, "both connections")


def test_a_connection_that_stays_unanswered_shows_nothing_and_neither_does_a_later_refusal(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A switch that dies between the end of one connection and the next."""
    monkeypatch.setattr(lifelines, "ANSWER_LIMIT", 0.1)
    monkeypatch.setattr(lifelines, "PAUSES", (0.05,))
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    watched.follow(registration("n1", "127.0.0.1", port_of(full)))
    first, _ = full.accept()
    stuffing = [socket.socket() for _ in range(4)]  # then the kernel answers no more
    for one in stuffing:
        one.setblocking(False)
        one.connect_ex(full.getsockname())
    before = watched.attempts("n1")
    first.close()
    eventually(lambda: watched.attempts("n1") >= before + 3, "attempts without an answer")
    full.close()
    for one in stuffing:
        one.close()
    after = watched.attempts("n1")
    eventually(lambda: watched.attempts("n1") >= after + 3, "attempts that were refused")
    assert watched.lines.news() == []


def test_a_port_that_never_answered_is_no_evidence(
    watched: Watched, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that the coordinator cannot reach is judged as before there were lifelines."""
    monkeypatch.setattr(lifelines, "PAUSES", (0.05,))
    port = port_of(server)
    server.close()
    watched.lines.follow([registration("n1", "127.0.0.1", port)])
    eventually(lambda: "n1" in watched.lines._lines and watched.attempts("n1") >= 3, "refused attempts")
    assert watched.lines.news() == []


def test_a_refusal_is_withdrawn_when_the_port_answers_again(
    watched: Watched, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifelines, "PAUSES", (0.05,))
    port = port_of(server)
    watched.follow(registration("n1", "127.0.0.1", port))
    connection, _ = server.accept()
    server.close()
    connection.close()
    assert isinstance(watched.told(), LifelineCut)
    with socket.create_server(("127.0.0.1", port)):
        assert isinstance(watched.told(), LifelineRestored)


def test_a_cut_names_the_newest_session_of_the_process(watched: Watched, server: socket.socket) -> None:
    port = port_of(server)
    watched.follow(registration("n1", "127.0.0.1", port))
    connection, _ = server.accept()
    watched.lines.follow([registration("n1", "127.0.0.1", port, session="b")])
    eventually(lambda: watched.lines._lines["n1"].session == "b", "the new session")
    assert watched.open() == {"n1"}, "the connection stays"
    server.close()
    connection.close()
    told = watched.told()
    assert isinstance(told, LifelineCut)
    assert told.session == "b"


def test_a_new_process_gets_a_new_connection_and_the_end_of_the_old_one_shows_nothing(
    watched: Watched, server: socket.socket
) -> None:
    watched.follow(registration("n1", "127.0.0.1", port_of(server)))
    old, _ = server.accept()
    with socket.create_server(("127.0.0.1", 0)) as second:
        second.settimeout(30)
        watched.lines.follow([registration("n1", "127.0.0.1", port_of(second), session="b", pid=2)])
        new, _ = second.accept()
        assert old.recv(1) == b"", "closed by the coordinator"
        server.close()
        eventually(lambda: watched.open() == {"n1"}, "the new connection")
        assert watched.lines.news() == []
        new.close()
    old.close()


def test_nodes_that_are_not_listed_or_have_no_port_have_no_connection(
    watched: Watched, server: socket.socket
) -> None:
    watched.follow(registration("n1", "127.0.0.1", port_of(server)), registration("n2", "127.0.0.1", 0))
    connection, _ = server.accept()
    watched.follow()
    assert connection.recv(1) == b""
    connection.close()


def test_a_server_that_talks_is_no_agent(watched: Watched, server: socket.socket) -> None:
    watched.follow(registration("n1", "127.0.0.1", port_of(server)))
    connection, _ = server.accept()
    server.close()
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    eventually(lambda: not watched.open() and watched.attempts("n1") >= 2, "it is left alone")
    assert watched.lines.news() == []
    connection.close()


def test_no_more_connections_are_held_than_files_permit(
    watched: Watched, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched.lines, "_limit", 1)
    one, other = (registration(name, "127.0.0.1", port_of(server)) for name in ("n1", "n2"))
    watched.lines.follow([one, other])
    eventually(lambda: len(watched.open()) == 1, "one connection")
    assert len(watched.lines._lines) == 1


def test_half_of_the_files_are_left_for_everything_else() -> None:
    assert lifelines.places(1024) == 512
    assert lifelines.places(resource.RLIM_INFINITY) > 10**6


def test_when_the_thread_has_ended_detection_goes_on_without(watched: Watched) -> None:
    watched.lines.finish()
    watched.lines.follow([registration("n1", "127.0.0.1", 9)])
    assert watched.lines.news() == []


def test_a_connection_of_a_free_port_to_itself_is_refused() -> None:
    """Loopback addresses permit it: the kernel takes the source port from the same range."""
    with socket.socket() as itself:
        itself.bind(("127.0.0.1", 0))
        itself.connect(itself.getsockname())
        assert lifelines._refused_after_all(itself) == errno.ECONNREFUSED
    with socket.socket() as unconnected:
        assert lifelines._refused_after_all(unconnected) == errno.ECONNRESET


# ---- the agent's side ----------------------------------------------------------------------------


def test_clients_cannot_hurt_the_agent() -> None:
    """Each may send what it likes; with too many, the oldest have to go."""
    lifeline = Lifeline("127.0.0.1")
    clients = [socket.create_connection(("127.0.0.1", lifeline.port)) for _ in range(3 * PLACES)]
    clients[-1].setblocking(False)
    sent = 0
    try:
        while True:
            sent += clients[-1].send(b"x" * 65536)
    except BlockingIOError:
        pass
    assert sent < 16 << 20, "the agent's memory takes none of it"
    eventually(lambda: len(lifeline._held) == PLACES, "as many connections as there are places")
    for one in clients[: 2 * PLACES]:
        one.settimeout(30)
        assert one.recv(1) == b"", "the oldest were closed"
    lifeline.close()
    clients[-2].settimeout(30)
    assert clients[-2].recv(1) == b"", "the end closes all"
    for one in clients:
        one.close()


def test_an_agent_that_cannot_listen_at_its_address_goes_without() -> None:
    assert Lifeline("192.0.2.1").port == 0
