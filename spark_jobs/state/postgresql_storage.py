"""Objects in a table of PostgreSQL: a row for each chunk. A batch is one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import (
    CHUNK,
    ChunkedStorage,
    NotThereError,
    RefusedError,
    UnavailableError,
    split,
)

_LOCK = 7_203_417_550
"""Of the making of the table, which two processes cannot do at the same moment."""
_MAKE = (
    """CREATE TABLE IF NOT EXISTS resurge_checkpoint_chunks (
        directory text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        number integer NOT NULL,
        size bigint NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (directory, name, number)
    )""",
    # State files are compressed, or hardly get smaller: PostgreSQL need not try.
    "ALTER TABLE resurge_checkpoint_chunks ALTER COLUMN content SET STORAGE EXTERNAL",
)
_THERE = "SELECT to_regclass('resurge_checkpoint_chunks')"
_INSERT = """
    INSERT INTO resurge_checkpoint_chunks VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (directory, name, number) DO NOTHING
"""
_SELECT = """
    SELECT size, content FROM resurge_checkpoint_chunks WHERE directory = %s AND name = %s ORDER BY number
"""
_ENTRIES = """
    SELECT name, size FROM resurge_checkpoint_chunks WHERE directory = %(directory)s AND number = 0
    UNION ALL
    SELECT DISTINCT split_part(substr(directory, length(%(below)s) + 1), '/', 1), NULL::bigint
    FROM resurge_checkpoint_chunks
    WHERE directory >= %(below)s AND directory < %(beyond)s AND directory <> '' AND number = 0
"""
_SIZE = "SELECT size FROM resurge_checkpoint_chunks WHERE directory = %s AND name = %s AND number = 0"
_DELETE = "DELETE FROM resurge_checkpoint_chunks WHERE directory = %s AND name = %s"
_RENAME = "UPDATE resurge_checkpoint_chunks SET name = %s WHERE directory = %s AND name = %s"
_REMOVE_TREE = """
    DELETE FROM resurge_checkpoint_chunks
    WHERE directory = %(directory)s OR (directory >= %(below)s AND directory < %(beyond)s)
"""
_REFUSED = frozenset({"28", "42", "3D", "53", "3F"})
"""Classes of SQLSTATE: sign-in, permission, no such database or schema, no room."""
_CANNOT_SIGN_IN = ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")


class PostgresqlStorage(ChunkedStorage):
    """conninfo: as libpq reads it; PGPASSWORD and a password file serve as everywhere."""

    def __init__(self, conninfo: str, place: str) -> None:
        super().__init__(place)
        self._conninfo = conninfo
        self._idle: list[psycopg.Connection] = []

    def put(self, files: Mapping[str, Path], then: Mapping[str, bytes]) -> set[str]:
        there: set[str] = set()
        with self._connection("") as connection, connection.transaction(), connection.cursor() as cursor:
            # In one order, so that two of them do not wait for each other.
            for name, source in sorted(files.items()):
                with source.open("rb") as file:
                    chunks = iter(lambda: file.read(CHUNK), b"")
                    if not _insert(cursor, name, source.stat().st_size, chunks):
                        there.add(name)
            for name, content in then.items():
                chunks = (content[at : at + CHUNK] for at in range(0, len(content), CHUNK))
                if not _insert(cursor, name, len(content), chunks):
                    there.add(name)
        return there

    def chunks(self, name: str) -> Iterator[bytes]:
        """One statement sees one state of the table."""
        size, read = -1, 0
        with self._connection(name) as connection, connection.cursor(binary=True) as cursor:
            for said, content in cursor.stream(_SELECT, split(name)):
                size = said
                read += len(content)
                yield content
        if size < 0:
            raise NotThereError(f"{self.where(name)} is not there")
        if read != size:
            raise DamagedError(f"{self.where(name)} is damaged: it has {read} bytes of {size}", name)

    def entries(self, directory: str) -> dict[str, int | None]:
        with self._connection(directory) as connection:
            return dict(connection.execute(_ENTRIES, _range(directory)).fetchall())

    def size(self, name: str) -> int | None:
        with self._connection(name) as connection:
            row = connection.execute(_SIZE, split(name)).fetchone()
        return None if row is None else int(row[0])

    def delete(self, names: Iterable[str]) -> None:
        with self._connection("") as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(_DELETE, [split(name) for name in sorted(names)])

    def rename(self, name: str, new: str) -> None:
        directory, last = split(name)
        with self._connection(name) as connection, connection.transaction():
            connection.execute(_DELETE, (directory, new))
            if connection.execute(_RENAME, (new, directory, last)).rowcount == 0:
                raise NotThereError(f"{self.where(name)} is not there")

    def remove_tree(self, directory: str) -> None:
        with self._connection(directory) as connection:
            connection.execute(_REMOVE_TREE, _range(directory))

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextlib.contextmanager
    def _connection(self, name: str) -> Iterator[psycopg.Connection]:
        """For one thread at a time; one that fails is not used again."""
        connection: psycopg.Connection | None = None
        where = self.where(name) if name else self.place
        try:
            connection = self._taken()
            yield connection
            self._idle.append(connection)
            connection = None
        except psycopg.Error as error:
            raise _told(error, where) from error
        finally:
            if connection is not None:
                connection.close()

    def _taken(self) -> psycopg.Connection:
        """An idle connection that still answers, or a new one."""
        with contextlib.suppress(IndexError):
            while True:
                idle = self._idle.pop()
                with contextlib.suppress(psycopg.OperationalError):
                    idle.execute("SELECT 1")
                    return idle
                idle.close()
        connection = psycopg.connect(
            self._conninfo, autocommit=True, connect_timeout=5, tcp_user_timeout=60_000,
            application_name="resurge checkpoints",
        )  # fmt: skip
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: psycopg.Connection) -> None:
        """Make the table, unless it is there: then no permission is needed."""
        row = connection.execute(_THERE).fetchone()
        if row is None or row[0] is None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                for statement in _MAKE:
                    connection.execute(statement)


def _insert(cursor: psycopg.Cursor[Any], name: str, size: int, chunks: Iterable[bytes]) -> bool:
    """False: an object of that name was there."""
    directory, last = split(name)
    number = 0
    for chunk in chunks:
        if cursor.execute(_INSERT, (directory, last, number, size, chunk)).rowcount == 0:
            return False
        number += 1
    # What is empty has a row as well.
    return number > 0 or cursor.execute(_INSERT, (directory, last, 0, size, b"")).rowcount > 0


def _range(directory: str) -> dict[str, str]:
    """What the names of all directories below one lie between."""
    below = f"{directory}/" if directory else ""
    return {"directory": directory, "below": below, "beyond": f"{directory}0" if directory else "\U0010ffff"}


def _told(error: psycopg.Error, where: str) -> RefusedError | UnavailableError:
    said = " ".join(str(error).split())
    if (error.sqlstate or "")[:2] in _REFUSED or any(text in said for text in _CANNOT_SIGN_IN):
        return RefusedError(
            f"{where}: {said}; give a user and a password that PostgreSQL knows (RESURGE_CHECKPOINTS, "
            "RESURGE_CHECKPOINTS_PASSWORD), who may make and change the table resurge_checkpoint_chunks"
        )
    if isinstance(error, psycopg.OperationalError):
        hint = "see whether PostgreSQL runs and RESURGE_CHECKPOINTS names it"
        return UnavailableError(f"{where}: {said}; {hint}")
    return UnavailableError(f"{where}: {said}")
