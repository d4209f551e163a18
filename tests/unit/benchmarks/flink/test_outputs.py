"""Which files of the Flink job count, and how far its queries had got when."""

from __future__ import annotations

from pathlib import Path

from benchmarks.flink.outputs import Reached, Run, complete_to, counted, progress, runs, written

# Ids of runs say nothing of their order.
ORDER = ("f1", "0a", "77")


def rows_name(run: str, restored: int, after: int, subtask: int = 0, subtasks: int = 2) -> str:
    return f"{run}-r{restored}-t{1700000000000 + ORDER.index(run)}-s{subtask}-of{subtasks}-c{after}.rows"


def log_name(run: str, restored: int = 0, subtask: int = 0, subtasks: int = 2) -> str:
    return f"{run}-r{restored}-t{1700000000000 + ORDER.index(run)}-s{subtask}-of{subtasks}.progress"


def lines(*steps: tuple[int, float]) -> list[str]:
    """Each is a second and when it was reached."""
    return [f"1 {second} {int((1_700_000_000 + at) * 1000)}" for second, at in steps]


def at(seconds: float) -> float:
    return 1_700_000_000 + seconds


def test_rows_that_a_later_run_writes_again_do_not_count() -> None:
    names = [rows_name("f1", 0, 0), rows_name("f1", 0, 4), rows_name("f1", 0, 5), rows_name("0a", 5, 5)]
    found = counted(written(map(Path, names)), runs(names))
    assert [(one.run, one.after) for one in found] == [("f1", 0), ("f1", 4), ("0a", 5)]


def test_the_rows_of_an_run_that_completed_no_checkpoint_do_not_count() -> None:
    names = [rows_name("f1", 0, 3), rows_name("0a", 4, 4), rows_name("77", 4, 4), rows_name("77", 4, 5)]
    found = counted(written(map(Path, names)), runs(names))
    assert [(one.run, one.after) for one in found] == [("f1", 3), ("77", 4), ("77", 5)]


def test_an_run_is_known_by_its_log_where_it_wrote_no_rows() -> None:
    names = [rows_name("f1", 0, 4), log_name("0a", restored=3)]
    assert runs(names) == {"f1": Run("f1", 0, 1700000000000), "0a": Run("0a", 3, 1700000000001)}
    assert counted(written(map(Path, names)), runs(names)) == []


def test_other_files_are_left_alone() -> None:
    assert written([Path("counted.parquet"), Path(log_name("f1"))]) == []
    assert runs(["counted.parquet"]) == {}


def test_a_query_is_as_far_as_the_last_of_its_subtasks() -> None:
    logs = {
        log_name("f1", subtask=0): lines((10, 10.1), (11, 11.1)),
        log_name("f1", subtask=1): lines((10, 10.4), (11, 11.2)),
    }
    assert progress(logs) == [Reached(at(10.4), 10), Reached(at(11.2), 11)]


def test_a_subtask_that_jumps_has_reached_what_it_jumped_over() -> None:
    logs = {
        log_name("f1", subtask=0): lines((10, 10.1), (11, 11.1), (12, 12.1)),
        log_name("f1", subtask=1): lines((10, 10.2), (12, 12.5)),
    }
    assert progress(logs) == [Reached(at(10.2), 10), Reached(at(12.5), 11), Reached(at(12.5), 12)]


def test_a_replay_is_no_progress() -> None:
    logs = {
        log_name("f1", subtask=0, subtasks=1): lines((10, 10.1), (11, 11.1)),
        log_name("0a", subtask=0, subtasks=1): lines((10, 20.0), (11, 20.1), (12, 20.2)),
    }
    assert progress(logs) == [Reached(at(10.1), 10), Reached(at(11.1), 11), Reached(at(20.2), 12)]


def test_an_run_of_which_a_subtask_never_started_says_nothing() -> None:
    assert progress({log_name("f1", subtask=0): lines((10, 10.1))}) == []


def test_a_torn_line_says_nothing() -> None:
    assert progress({log_name("f1", subtasks=1): ["1 10 1700000010100", "1 11 17000"]}) == [
        Reached(at(10.1), 10)
    ]


def test_rows_are_complete_as_far_as_the_last_run_had_got() -> None:
    logs = {
        log_name("f1", subtasks=1): lines((10, 10.1), (11, 11.1)),
        log_name("0a", subtasks=1): lines((9, 20.0), (10, 20.1)),
    }
    assert complete_to(logs) == 10
    assert complete_to({**logs, log_name("77", subtasks=1): []}) is None
    assert complete_to({}) is None
