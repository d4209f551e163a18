"""What a start leaves outlives the loss of power: without its secrets nothing else can be read."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from controlplane.config.settings import DATABASES
from host.detached import DetachedProcesses
from host.private import write_private
from host.processes import kill_session
from supervision.main_job import Source, deployed_keep, deployed_read
from supervision.profiles import SCARCE, profile_choose, profile_keep
from tests.lossy_disk import lossy_disk


def test_files_with_secrets_survive(tmp_path: Path) -> None:
    with lossy_disk(tmp_path) as disk:
        (disk.root / "home" / "run").mkdir(parents=True)
        write_private(disk.root / "home" / "run" / "environment", b"RESURGE_SPARK_SECRET=x\n")
        disk.crash()
        disk.remount()
        assert (disk.root / "home" / "run" / "environment").read_bytes() == b"RESURGE_SPARK_SECRET=x\n"


def test_the_records_of_nodes_and_drivers_survive(tmp_path: Path) -> None:
    """A node that is wanted and has none would never be started again."""
    with lossy_disk(tmp_path) as disk:
        processes = DetachedProcesses(disk.root / "run" / "nodes")
        output = tmp_path / "node-5.log"
        record = processes.start("node-5", ["sleep", "60"], environment={}, directory=tmp_path, output=output)
        disk.crash()
        kill_session(record.pid)
        disk.remount()
        assert processes.get("node-5") == record


def test_what_a_start_notes_of_itself_survives(tmp_path: Path) -> None:
    """The next one would have deployed the main job anew, or taken the default for its profile."""
    source = Source(pipeline="hashtags", rate="5000")
    with lossy_disk(tmp_path) as disk:
        home = disk.root / "home"
        home.mkdir()
        profile_keep(home, SCARCE, settled=True)
        deployed_keep(home, source, settled=True)
        disk.crash()
        disk.remount()
        chosen = profile_choose(home, "")
        assert (chosen.profile, chosen.changes) == (SCARCE, False)
        kept = deployed_read(home)
        assert kept is not None
        assert kept.source == source


def test_what_was_committed_to_the_embedded_database_survives(tmp_path: Path) -> None:
    options = DATABASES["default"].get("OPTIONS", {})
    if "init_command" not in options:
        pytest.skip("another database forces its files itself")
    with lossy_disk(tmp_path) as disk:
        path = disk.root / "resurge.sqlite3"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.executescript(options["init_command"])
            database.execute("CREATE TABLE plans (generation)")
            database.execute("PRAGMA wal_checkpoint(PASSIVE)")
            os.sync()
            for generation in range(5):
                database.execute("INSERT INTO plans VALUES (?)", (generation,))
            disk.crash()
        disk.remount()
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT count(*) FROM plans").fetchone() == (5,)
