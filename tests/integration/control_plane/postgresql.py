"""A PostgreSQL of its own in a temporary directory, and Django's default database pointed to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

    def execute(self, statement: str) -> None:
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())

    def copy(self, name: str, *, of: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.execute(f"CREATE DATABASE {name} TEMPLATE {of} STRATEGY file_copy")


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
