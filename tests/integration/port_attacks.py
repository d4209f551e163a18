"""Attacks on the ports of the product, in the protocol that a port speaks.

Each yields one word per attack that reached the port: what it got, or an empty one if it was refused. What
could not be carried out raises `UnreachedError`.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from coordination.paths import ROOT, Paths
from tests.integration.protocols import (
    PATIENCE,
    QUESTIONS,
    Port,
    UnreachedError,
    answer,
    is_spark_answer,
    spark_call,
)

PAGES = (
    "/",
    "/json/",
    "/environment/",
    "/metrics/json/",
    "/metrics/prometheus/",
    "/logPage/",
    "/log/",
    "/static/",
)
SUBMISSION = "/v1/submissions/status/driver-0"
REDIS_COMMANDS = ("PING", "INFO", "KEYS *", "CONFIG GET *", "EVAL 'return 1' 0", "FLUSHALL")
# Not `srvr`, which ZooKeeper answers whatever is configured: its version and how many znodes it has.
FOUR_LETTERS = ("stat", "mntr", "dump", "conf", "envi", "cons", "wchs", "wchp", "isro")


def _pages(port: Port, _: str) -> Iterator[str]:
    for page in (*PAGES, SUBMISSION):
        connection = http.client.HTTPConnection(port.host, port.number, timeout=PATIENCE)
        try:
            connection.request("GET", page)
            got = connection.getresponse()
            body = got.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnreachedError(f"{port}: GET {page}: {error!r}") from error
        finally:
            connection.close()
        taken = got.status < 400 or (page == SUBMISSION and b"action" in body)
        yield f"GET {page}: {got.status} {body[:80]!r}" if taken else ""


def _redis(port: Port, _: str) -> Iterator[str]:
    for command in REDIS_COMMANDS:
        said = answer(port, f"{command}\r\n".encode(), lambda said: b"\r\n" in said)
        if not said:
            raise UnreachedError(f"{port}: no answer to {command}")
        yield "" if said.startswith(b"-") else f"Redis, {command}: {said[:60]!r}"


def _zookeeper(port: Port, node: str) -> Iterator[str]:
    for word in FOUR_LETTERS:
        said = answer(port, word.encode(), lambda _: False)
        if not said:
            raise UnreachedError(f"{port}: no answer to {word}")
        yield "" if b"not in the whitelist" in said else f"ZooKeeper, {word}: {said[:60]!r}"
    client = KazooClient(f"{port.host}:{port.number}", timeout=PATIENCE, command_retry={"max_tries": 0})
    try:
        client.start(timeout=PATIENCE)
        yield from _znodes(port, client, node)
    except KazooTimeoutError as error:
        raise UnreachedError(f"{port}: no session of ZooKeeper") from error
    finally:
        client.stop()
        client.close()


def _znodes(port: Port, client: KazooClient, node: str) -> Iterator[str]:
    evil = b'{"name": "evil"}'
    plan, control = Paths.plan("hashtags"), Paths.control("hashtags")

    def control_written() -> None:
        try:
            client.set(control, evil)
        except NoNodeError:
            client.create(control, evil)

    attempts: dict[str, Callable[[], object]] = {
        "list /": lambda: client.get_children("/"),
        f"list {ROOT}": lambda: client.get_children(ROOT),
        f"list {Paths.NODES}": lambda: client.get_children(Paths.NODES),
        "read a plan": lambda: client.get(plan),
        "read the permissions of a plan": lambda: client.get_acls(plan),
        "read a registration": lambda: client.get(Paths.node(node)),
        "read a specification": lambda: client.get(Paths.spec("hashtags")),
        "write a plan": lambda: client.set(plan, evil),
        "write a control": control_written,
        "delete a plan": lambda: client.delete(plan),
        "add a topology": lambda: client.create(Paths.topology("evil"), evil),
        "add a node": lambda: client.create(Paths.node("evil"), evil, ephemeral=True),
        "add a znode beside the tree": lambda: client.create("/evil", evil),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except NoAuthError:
            yield ""
        except KazooException as error:
            raise UnreachedError(f"{port}: {what}: {error!r}") from error
        else:
            yield f"ZooKeeper: may {what}"


def _spark(port: Port, _: str) -> Iterator[str]:
    said = answer(port, spark_call(), _is_whole_frame)
    if not is_spark_answer(said):
        raise UnreachedError(f"{port}: a call was answered with {said[:60]!r}")
    yield "" if b"SaslMessage" in said else f"Spark takes calls: {said[9:120]!r}"


def _is_whole_frame(said: bytes) -> bool:
    return len(said) >= 8 and len(said) >= int.from_bytes(said[:8])


def _py4j(port: Port, _: str) -> Iterator[str]:
    said = answer(port, QUESTIONS["py4j"], lambda said: b"\n" in said)
    if not said.startswith(b"!"):
        raise UnreachedError(f"{port}: a command was answered with {said[:60]!r}")
    yield f"the driver's JVM takes commands: {said[:60]!r}" if said.startswith(b"!y") else ""


ATTACKS: dict[str, Callable[[Port, str], Iterator[str]]] = {
    "http": _pages,
    "redis": _redis,
    "zookeeper": _zookeeper,
    "spark": _spark,
    "py4j": _py4j,
}
"""Protocol -> its attacks; the second argument is the name of a node that is registered."""
