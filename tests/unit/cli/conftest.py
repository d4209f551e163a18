"""The seeded web server, tokens of each role, and `resurge` to be run against it.

The server is a process of its own with a database of its own: an incident whose second wave waits for an
approval. What is asked of incidents is carried out there by the coordinator's code; no process carries
out what is asked of topologies and nodes, so those operations stay pending.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli import session
from cli.main import main
from tests.unit.cli.running import Answer, Wire
from tests.unit.cli.serving import Server, rest_client, tokens_make

Resurge = Callable[..., Answer]
PATIENCE = 120.0
"""Seconds for an answer; long, because a busy machine is slow."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server"), "proposed")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def tokens(server: Server) -> dict[str, str]:
    """Tokens by role."""
    return tokens_make(server)


@pytest.fixture(scope="session")
def rest(server: Server, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """A client of REST, to compare its answers with the command line."""
    with rest_client(server, tokens) as client:
        yield client


@pytest.fixture
def variables(server: Server, tokens: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of an operator."""
    return {
        "RESURGE_URL": server.url,
        "RESURGE_TOKEN": tokens["operator"],
        "RESURGE_CONFIG": str(tmp_path / "configuration" / "config.json"),
        "RESURGE_HOME": str(tmp_path / "no-checkout"),
    }


@pytest.fixture
def resurge(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Resurge:
    """`resurge("nodes", "list")`, where output is no terminal. Names in capitals change the environment."""

    def run(*arguments: str, **changed: str) -> Answer:
        with monkeypatch.context() as environment:
            environment.setattr(session, "TIMEOUT", PATIENCE)
            for name, value in {**variables, **changed}.items():
                environment.setenv(name, value)
            capsys.readouterr()
            code = main(arguments)
            out, err = capsys.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    made = Wire(server.url)
    yield made
    made.close()


@pytest.fixture
def database(server: Server) -> Callable[..., list[Any]]:
    """Run a statement on the server's database, as other processes do, and return its rows."""

    def execute(statement: str, *values: Any) -> list[Any]:
        (file,) = server.home.rglob("*.sqlite3")
        with closing(sqlite3.connect(file, timeout=20)) as connection:
            rows = connection.execute(statement, values).fetchall()
            connection.commit()
            return rows

    return execute
