"""A PostgreSQL of its own in a temporary directory, and Django's default database pointed to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from django.db import connections

from harness.eventually import eventually
from harness.stack import free_port

USER = "resurge"
ACCOUNT = "postgres"
"""Whom the server runs as where the tests run as root, which it refuses."""


def programs() -> Path | None:
    """The directory of the server's programs, which Debian keeps out of the path; None where there are
    none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    other = shutil.which("initdb")
    return found[-1].parent if found else Path(other).parent if other else None


class Server:
    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port

    def url(self, name: str) -> str:
        return f"postgres://{USER}@127.0.0.1:{self.port}/{name}"

    def answers(self) -> bool:
        self.execute("SELECT 1")
        return True

    def execute(self, statement: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Returns the rows of the last statement, if it has any."""
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


class Filled:
    """A database that is put back to what it contained. Its rows are replaced, because a copy of the whole
    database takes six times as long, and with each copy PostgreSQL learns its tables anew."""

    def __init__(self, server: Server, name: str) -> None:
        """As the database is now; nothing may be connected to it."""
        self._execute: Callable[[str], list[tuple[Any, ...]]] = partial(server.execute, database=name)
        self.url = server.url(name)
        tables = self._names("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        sequences = self._names("SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'")
        self._execute("CREATE SCHEMA kept")
        # As replicas do, it believes that rows which refer to each other are all there.
        steps = ["BEGIN", "SET LOCAL session_replication_role = replica"]
        for table in tables:
            original, copy = f'public."{table}"', f'kept."{table}"'
            self._execute(f"CREATE TABLE {copy} AS TABLE {original}")
            steps += [f"DELETE FROM {original}", f"INSERT INTO {original} TABLE {copy}"]  # noqa: S608 - our tables
        for sequence in sequences:
            ((last, _, called),) = self._execute(f'TABLE public."{sequence}"')
            steps.append(f"SELECT setval('public.\"{sequence}\"', {last}, {called})")
        self._put_back = "; ".join([*steps, "COMMIT"])

    def put_back(self) -> None:
        """Ends what is still connected, with the locks that it holds."""
        self._execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        self._execute(self._put_back)

    def _names(self, query: str) -> list[str]:
        return [str(name) for (name,) in self._execute(query)]


@contextmanager
def server() -> Iterator[Server]:
    """A running server; nothing is forced to disk."""
    where = programs()
    assert where is not None, "install the package postgresql"
    root = os.geteuid() == 0
    account: dict[str, Any] = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if root else {}
    with tempfile.TemporaryDirectory(prefix="resurge-postgresql-", dir="/tmp") as name:
        directory = Path(name)
        if root:
            shutil.chown(directory, ACCOUNT, ACCOUNT)
        data, port = directory / "data", free_port()
        subprocess.run(
            [where / "initdb", "-D", data, "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync"],
            check=True, capture_output=True, cwd=directory, **account,
        )  # fmt: skip
        with open(directory / "log", "wb") as log:
            process = subprocess.Popen(
                [
                    *(where / "postgres", "-D", data, "-k", directory, "-p", str(port), "-h", "127.0.0.1"),
                    *("-F", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"),
                ],
                stdout=log, stderr=log, cwd=directory, **account,
            )  # fmt: skip
        one = Server(directory, port)
        try:
            eventually(one.answers, "postgresql", not_yet=(psycopg.OperationalError,))
            yield one
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def database(configuration: dict[str, Any]) -> Iterator[None]:
    """Have every connection that Django makes to its default database, in any thread, go to this one."""
    before, kept = connections.settings["default"], connections["default"]
    connections.settings["default"] = {**before, "OPTIONS": {}, **configuration}
    del connections["default"]
    try:
        yield
    finally:
        connections.close_all()
        connections.settings["default"] = before
        # An SQLite in memory lives as long as its connection.
        connections["default"] = kept
