"""The epoch log across restarts, torn writes and trimming."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.execution.job import EpochPlan
from domain.execution.progress import Position
from spark_jobs.driver.epoch_log import FEWEST_TRIMMED, EpochLog, EpochLogError


def plan(epoch: int) -> EpochPlan:
    return EpochPlan(
        epoch=epoch,
        slices={"Source": ({"tuple": epoch - 1}, {"tuple": epoch})},
        watermark=epoch * 10,
        previous_watermark=epoch * 10 - 10,
        at=float(epoch),
    )


def written(path: Path, epochs: int, committed: int) -> EpochLog:
    log = EpochLog(path)
    log.start(at=5.0, origin_us=5_000_000)
    log.plan([plan(epoch) for epoch in range(1, epochs + 1)])
    log.applied(1, Position(), {"A[0]": "n1"})
    log.commit(Position(committed), 6.0)
    return log


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "t" / "epochs.log"
    written(path, 4, 3).close()
    again = EpochLog(path)
    assert (again.head, again.committed, again.generation) == (4, 3, 1)
    assert (again.started_at, again.origin_us) == (5.0, 5_000_000)
    assert again.plans[4] == plan(4)


def test_a_log_whose_name_cannot_be_forced_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        EpochLog(tmp_path / "t" / "epochs.log")
    EpochLog(tmp_path / "t" / "epochs.log", force=False).close()


FORCED: dict[str, Callable[[EpochLog], object]] = {
    "start": lambda log: log.start(at=5.0, origin_us=5_000_000),
    "life": EpochLog.begin_life,
    "plan": lambda log: log.plan([plan(5)]),
    "adopted": lambda log: log.applied(2, Position(3), {"A[0]": "n2"}),
    "checkpoint": lambda log: log.commit(Position(4, checkpoint=4), 7.0, durable=True),
    "another version": lambda log: log.go_over(2, 3),
    "another run": EpochLog.start_afresh,
    "savepoint": lambda log: log.begin_after(plan(9), started_at=1.0, origin_us=1, computation=1),
}


@pytest.mark.parametrize("step", FORCED)
def test_what_is_acted_on_is_on_disk_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log, forced = written(tmp_path / "t" / "epochs.log", 4, 3), list[tuple[int, int]]()

    def force(descriptor: int) -> None:
        found = os.fstat(descriptor)
        forced.append((found.st_ino, found.st_size))

    monkeypatch.setattr(os, "fdatasync", force)
    FORCED[step](log)
    found = log.path.stat()
    assert (found.st_ino, found.st_size) in forced


def test_lives_are_counted_also_after_trimming(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 4, 3)
    log.begin_life()
    log.trim(3)
    log.close()
    again = EpochLog(path)
    again.begin_life()
    again.close()
    assert EpochLog(path).life == 2


def test_what_was_trimmed_is_gone_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 6, 5)
    log.trim(5)
    assert list(log.plans) == [5, 6]
    log.close()
    again = EpochLog(path)
    assert (list(again.plans), again.head, again.committed) == ([5, 6], 6, 5)
    again.trim(9)
    assert list(again.plans) == [6], "the next epoch begins where the newest ends"


def test_the_file_does_not_grow_with_the_epochs(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 1, 1)
    sizes: list[int] = []
    rewritten = 0
    for epoch in range(2, 1_002):
        log.plan([plan(epoch)])
        log.commit(Position(epoch), 6.0)
        before = path.stat().st_ino
        log.trim(epoch - 1)
        rewritten += path.stat().st_ino != before
        sizes.append(path.stat().st_size)
    assert max(sizes[500:]) < 1.1 * max(sizes[:500]) < 64_000
    assert rewritten == 1_000 // FEWEST_TRIMMED
    log.close()
    again = EpochLog(path)
    assert (list(again.plans), again.head, again.committed) == ([1_000, 1_001], 1_001, 1_001)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 2, 2)
    before = path.stat().st_size
    log.plan([plan(3)])
    log.close()
    with open(path, "ab") as file:
        file.truncate(before + cut)
    again = EpochLog(path)
    assert again.head == 2
    again.plan([plan(3)])
    again.close()
    assert EpochLog(path).head == 3


def test_damage_before_the_last_line_is_an_error_that_says_where(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    written(path, 2, 2).close()
    data = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([data[0], b"nonsense\n", *data[1:]]))
    with pytest.raises(EpochLogError, match="line 2"):
        EpochLog(path)


def test_no_flipped_bit_goes_unnoticed(tmp_path: Path) -> None:
    """In a line in the middle. Where the checksum itself is, the rest is as it was."""
    path = tmp_path / "epochs.log"
    written(path, 2, 2).close()
    lines = path.read_bytes().splitlines(keepends=True)
    for position in range(8 * lines[2].rindex(b',"crc"')):
        damaged = bytearray(lines[2])
        damaged[position // 8] ^= 1 << position % 8
        path.write_bytes(b"".join([*lines[:2], bytes(damaged), *lines[3:]]))
        with pytest.raises(EpochLogError, match=r"epochs\.log, line"):
            EpochLog(path)


def test_lines_of_versions_without_checksums_are_read(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    written(path, 2, 2).close()
    path.write_bytes(re.sub(rb',"crc":"[0-9a-f]+"', b"", path.read_bytes()))
    again = EpochLog(path)
    assert (again.head, again.committed) == (2, 2)
    again.close()


def test_rollback_takes_the_commit_back(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 9, 8)
    log.applied(2, Position(4), {})
    log.close()
    again = EpochLog(path)
    assert (again.committed, again.generation, again.head) == (4, 2, 9)


@pytest.mark.parametrize("trimmed", [False, True])
def test_who_is_ahead_and_what_is_to_be_restored_outlives_the_driver(tmp_path: Path, trimmed: bool) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 9, 8)
    acting, shadows = {"B[0]": "n4"}, {"A[0]": ("n3", 8)}
    position = Position(
        4,
        {"A[0]": 9, "B[0]": 7},
        {"C[0]": 4},
        shadows=shadows,
        acting=acting,
        branches={"D[0]": ("n5", 9)},
    )
    log.applied(2, position, {"A[0]": "n2"})
    if trimmed:
        log.trim(3)
    log.close()
    again = EpochLog(path)
    assert again.position == position
    assert again.homes == {"A[0]": "n2"}


@pytest.mark.parametrize("field", ['"epoch":"x"', '"epoch":1,"ahead":[]', '"epoch":1,"restore":{"A[0]":"k"}'])
def test_a_damaged_position_is_an_error_that_says_where(tmp_path: Path, field: str) -> None:
    path = tmp_path / "epochs.log"
    written(path, 2, 2).close()
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"t":"commit",' + field + "}\n")
    with pytest.raises(EpochLogError, match="line 6"):
        EpochLog(path)


def test_a_run_has_output_once_an_epoch_of_it_is_committed(tmp_path: Path) -> None:
    log = written(tmp_path / "t" / "epochs.log", 4, 3)
    told = [log.has_output]
    log.start_afresh()
    told.append(log.has_output)
    log.begin_after(plan(9), started_at=1.0, origin_us=1, computation=1)
    told.append(log.has_output)
    assert told == [True, False, False], "what a savepoint has was given out by another run"
    log.commit(Position(10), 7.0)
    assert EpochLog(tmp_path / "t" / "epochs.log").has_output


def test_trimming_keeps_what_a_replay_needs(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 9, 8)
    log.trim(6)
    log.plan([plan(10)])
    log.close()
    again = EpochLog(path)
    assert sorted(again.plans) == [6, 7, 8, 9, 10]
    assert [again.holds(checkpoint) for checkpoint in (4, 5, 9, 10)] == [False, True, True, True]
    assert (again.head, again.committed, again.generation, again.started_at) == (10, 8, 1, 5.0)


def test_trimming_never_forgets_where_the_next_epoch_starts(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = written(path, 9, 9)
    log.trim(50)
    log.close()
    assert sorted(EpochLog(path).plans) == [9]
