"""The attacker of tests/integration takes neither silence nor a closed connection for a refusal."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration import local_attacker, port_attacks, protocols
from tests.integration.local_attacker import Surface
from tests.integration.port_attacks import ATTACKS
from tests.integration.protocols import Port, UnreachedError, protocol_of


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[Port]:
    """Calls `serve` with each connection, in a thread of its own, and then closes it."""

    def one(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            serve(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listening.accept()[0],), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield Port("redis", "redis-server", *listening.getsockname())
        listening.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_comes_after_all_questions_is_waited_for() -> None:
    everything_asked = threading.Barrier(len(protocols.QUESTIONS))

    def late(connection: socket.socket) -> None:
        said = connection.recv(4096)
        everything_asked.wait()
        if said == protocols.QUESTIONS["redis"]:
            connection.sendall(b"-NOAUTH Authentication required.\r\n")
        connection.recv(4096)

    with server(late) as port:
        assert protocol_of(port) == "redis"


def test_silence_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (protocols, port_attacks):
        monkeypatch.setattr(module, "PATIENCE", 0.3)

    def silent(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    with server(silent) as port:
        with pytest.raises(UnreachedError, match="answers in none of http, redis"):
            protocol_of(port)
        for attacks in ATTACKS.values():
            with pytest.raises(UnreachedError):
                list(attacks(port, "node-1"))


def test_a_closed_connection_is_no_refusal() -> None:
    with server(lambda connection: None) as port:
        with pytest.raises(UnreachedError, match="answers in none of http, redis"):
            protocol_of(port)
        for name in ("http", "redis", "spark", "py4j"):
            with pytest.raises(UnreachedError):
                list(ATTACKS[name](port, "node-1"))


def test_a_port_where_nothing_listens_is_unreached() -> None:
    with server(lambda connection: None) as port:
        pass
    with pytest.raises(UnreachedError, match="no connection"):
        protocol_of(port)


@pytest.fixture
def above() -> Iterator[Path]:
    """A directory with a short name: addresses of sockets have at most 107 bytes."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("mode", "found"), [(0o700, False), (0o755, True)])
def test_what_is_open_is_found_and_what_is_closed_is_reached(above: Path, mode: int, found: bool) -> None:
    """Whatever protects the directories above, which for temporary ones is everything."""
    home = above / "home"
    home.mkdir(mode=0o700)
    (home / "db.sqlite3").write_text("sessions")
    (home / "db.sqlite3").chmod(0o644)
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(home / "control.sock"))
        listening.listen()
        (home / "control.sock").chmod(0o777)
        home.chmod(mode)
        with local_attacker.open_to_all(above) as opened:
            files, sockets = local_attacker.files_of(home), ["home/control.sock"]
            outcome = local_attacker.unprivileged(Surface([], sockets, opened, files, 0, ""))
    assert ("home/db.sqlite3 can be read" in outcome.found) == found
    assert ("home/control.sock can be connected to" in outcome.found) == found
    assert (outcome.found != []) == found
    assert outcome.unreached == {}
    # Reading the home; reading and writing two files, planting one; connecting to the socket.
    assert outcome.reached == ({"file": 2} if found else {"file": 6, "socket": 1})
    assert list(above.iterdir()) == [home]
    assert stat.S_IMODE(above.stat().st_mode) == 0o700


def test_files_that_are_not_there_are_unreached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = local_attacker.Outcome()
    local_attacker._open(outcome, "nowhere", "read", os.O_RDONLY)
    with open("here", "w"):
        local_attacker._open(outcome, "here", "read", os.O_RDONLY)
    assert list(outcome.unreached) == ["nowhere"]
    assert outcome.found == ["here can be read"]
