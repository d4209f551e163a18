"""Connections of the detection worker to the agents, one per registered node, over which nothing is sent.

An idle connection closes only when its other end says so: the kernel of the node's host, because the agent's
process has ended. Then this module tries at once to connect again. *Refused* shows that no process listens
there any more: `LifelineCut`. A connection that can be made again was closed for another reason, and one that
stays unanswered shows nothing about the process: a network that is cut, or a machine that froze, closes
nothing. Without any connection, all nodes are judged by the other evidence.

One thread does all of it but look up names; `follow()` says for which nodes, and `news()` hands over what was
found out.
"""

from __future__ import annotations

import contextlib
import errno
import queue
import resource
import selectors
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from domain.messages import NodeRegistration
from domain.recovery.liveness import LifelineCut, LifelineRestored

log = structlog.get_logger(__name__)

ANSWER_LIMIT = 3.0
"""Seconds in which a connection has to be answered."""
PAUSES = (0.0, 0.05, 0.2, 1.0, 2.0, 5.0, 10.0)
"""Seconds before the first, second, ... attempt after a connection has ended."""
STEADY = 10.0
"""A connection that lasted so many seconds was a good one: the pauses start anew."""
LONGEST_WAIT = 5.0
SHARE = 0.5
"""Of the files that this process may open."""
ENDED = (errno.ECONNREFUSED, errno.ECONNRESET)
UNANSWERED = errno.ETIMEDOUT
PENDING = (errno.EINPROGRESS, errno.EAGAIN)
RESOLVERS = 4
"""Threads that look up names. A name server that is slow keeps each for half a minute."""

Target = tuple[int, Any]
"""Family and address of a socket."""
News = LifelineCut | LifelineRestored


@dataclass(slots=True)
class _Line:
    """The connection to one process of a node. States: `waiting` (until `due`), `naming`, `calling` (until
    `due`), `open`."""

    node: str
    session: str
    pid: int
    address: str
    port: int
    stage: str = "waiting"
    connection: socket.socket | None = None
    target: Target | None = None
    """Looked up once: a name server that is slow must not delay a refusal."""
    due: float = 0.0
    attempts: int = 0
    opened_at: float = 0.0
    closed_by_peer: bool = False
    """Whether the last connection was closed by the other end, so that a refusal is evidence."""
    told: bool = False
    """Whether a refusal was reported and not withdrawn."""

    def is_of(self, registration: NodeRegistration) -> bool:
        theirs = (registration.pid, registration.address, registration.lifeline)
        return theirs == (self.pid, self.address, self.port)


class Lifelines(threading.Thread):
    """`start()` it, `finish()` it. now: the clock of the stimuli. on_news: called in this thread."""

    def __init__(self, now: Callable[[], float], on_news: Callable[[], object]) -> None:
        super().__init__(name="lifelines", daemon=True)
        self._now = now
        self._on_news = on_news
        self._news: deque[News] = deque()
        self._wanted: dict[str, NodeRegistration] = {}
        self._lines: dict[str, _Line] = {}
        self._unnamed: queue.SimpleQueue[_Line | None] = queue.SimpleQueue()
        self._named: deque[tuple[_Line, Target | None]] = deque()
        self._finished = threading.Event()
        self.beat = time.monotonic()
        """When this thread last went on."""
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self._limit = places(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)

    # ---- called in other threads -----------------------------------------------------------------

    def follow(self, registrations: Iterable[NodeRegistration]) -> None:
        """Hold a connection to each of these nodes, and to no others."""
        self._wanted = {one.id: one for one in registrations if one.lifeline}
        self._wake()

    def news(self) -> list[News]:
        """What was found out since the last call, in order."""
        found: list[News] = []
        with contextlib.suppress(IndexError):
            while True:
                found.append(self._news.popleft())
        return found

    def finish(self, limit: float = 5.0) -> None:
        self._finished.set()
        self._wake()
        self.join(limit)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it will wake up anyway, or has ended
            self._rope.send(b"!")

    # ---- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(RESOLVERS):
            threading.Thread(target=self._look_up, name="lifeline-names", daemon=True).start()
        try:
            while not self._finished.is_set():
                self.beat = time.monotonic()
                for key, _ in self._selector.select(self._patience()):
                    if key.data is None:
                        self._follow()
                        self._call_named()
                    else:
                        self._answered(key.data)
                self._keep_time()
        except Exception:
            log.exception("lifelines ended: nodes are judged by the other evidence")
        finally:
            for line in self._lines.values():
                self._drop(line)
            for _ in range(RESOLVERS):
                self._unnamed.put(None)
            self._selector.close()
            self._bell.close()
            self._rope.close()

    def _patience(self) -> float:
        """Seconds until something is due, or a sign of life is."""
        due = [line.due for line in self._lines.values() if line.stage != "open"]
        return min(max(min(due, default=float("inf")) - time.monotonic(), 0.0), LONGEST_WAIT)

    def _follow(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
        wanted = self._wanted
        for node, line in list(self._lines.items()):
            if node not in wanted or not line.is_of(wanted[node]):
                self._drop(self._lines.pop(node))
        for node, one in wanted.items():
            if node in self._lines:
                self._lines[node].session = one.session
            elif len(self._lines) < self._limit:
                self._lines[node] = _Line(node, one.session, one.pid, one.address, one.lifeline)

    def _keep_time(self) -> None:
        now = time.monotonic()
        for line in self._lines.values():
            if line.stage == "open" or line.due > now:
                continue
            if line.stage == "calling":  # no answer
                self._failed(line, UNANSWERED)
            else:
                self._call(line)

    def _call(self, line: _Line) -> None:
        """Begin to connect, or to look up where to."""
        line.attempts += 1
        if line.target is None:
            line.target = _address(line, socket.AI_NUMERICHOST)
        if line.target is None:
            line.stage, line.due = "naming", float("inf")
            self._unnamed.put(line)
        else:
            self._connect(line, line.target)

    def _look_up(self) -> None:
        """In a thread of its own."""
        while (line := self._unnamed.get()) is not None:
            self._named.append((line, _address(line)))
            self._wake()

    def _call_named(self) -> None:
        while self._named:
            line, target = self._named.popleft()
            if self._lines.get(line.node) is not line:
                continue
            line.target = target
            if target is None:
                self._failed(line, UNANSWERED)
            else:
                self._connect(line, target)

    def _connect(self, line: _Line, target: Target) -> None:
        family, address = target
        try:
            line.connection = socket.socket(family, socket.SOCK_STREAM)
            line.connection.setblocking(False)
            code = line.connection.connect_ex(address)
        except OSError as error:  # no descriptor left
            self._failed(line, error.errno or UNANSWERED)
            return
        except (ValueError, OverflowError):  # what no address can be
            self._failed(line, UNANSWERED)
            return
        if code not in (0, *PENDING):
            self._failed(line, code)
            return
        line.stage, line.due = "calling", time.monotonic() + ANSWER_LIMIT
        self._selector.register(line.connection, selectors.EVENT_WRITE, line)

    def _answered(self, line: _Line) -> None:
        connection = line.connection
        if connection is None:
            return
        if line.stage == "open":
            self._heard(line, connection)
            return
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or _refused_after_all(connection)
        if code:
            self._failed(line, code)
            return
        line.stage, line.opened_at = "open", time.monotonic()
        self._selector.modify(connection, selectors.EVENT_READ, line)
        if line.told:
            line.told = False
            self._tell(LifelineRestored(self._now(), line.node))

    def _heard(self, line: _Line, connection: socket.socket) -> None:
        """The other end has closed the connection, or does what no agent does."""
        try:
            line.closed_by_peer = connection.recv(64) == b""
        except ConnectionResetError:
            line.closed_by_peer = True
        except BlockingIOError:
            return
        except OSError:
            line.closed_by_peer = False
        if time.monotonic() - line.opened_at > STEADY:
            line.attempts = 0
        self._wait(line)

    def _failed(self, line: _Line, code: int) -> None:
        if code in ENDED and line.closed_by_peer:
            line.told = True
            self._tell(LifelineCut(self._now(), line.node, line.session))
        if code not in ENDED:
            line.target = None
        # Only the first answer counts: later the port may be closed to us for another reason.
        line.closed_by_peer = False
        self._wait(line)

    def _wait(self, line: _Line) -> None:
        self._drop(line)
        line.due = time.monotonic() + PAUSES[min(line.attempts, len(PAUSES) - 1)]

    def _drop(self, line: _Line) -> None:
        if line.connection is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(line.connection)
            line.connection.close()
        line.connection, line.stage = None, "waiting"

    def _tell(self, news: News) -> None:
        self._news.append(news)
        self._on_news()


def places(files: int) -> int:
    """For how many nodes there is a connection, if this process may open so many files."""
    return sys.maxsize if files == resource.RLIM_INFINITY else int(SHARE * files)


def _address(line: _Line, flags: int = 0) -> Target | None:
    """Where a line leads to; None if that cannot be found out."""
    try:
        found = socket.getaddrinfo(line.address, line.port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, ValueError, OverflowError):  # there is no such address, or it is none
        return None
    return found[0][0], found[0][-1]


def _refused_after_all(connection: socket.socket) -> int:
    """An error number, or 0 for a connection that was really made. On one host, one to a free port may by
    chance be made from that same port; and the other end may have reset it already."""
    try:
        itself = connection.getsockname() == connection.getpeername()
    except OSError:
        return errno.ECONNRESET
    return errno.ECONNREFUSED if itself else 0
