"""What became of keys, by node."""

from __future__ import annotations

from domain.execution.job import KeeperStatus, KeyCounts, PartitionReport, TaskReport
from domain.key_saving.breaker import Breaker
from spark_jobs.driver.key_figures import KeyFigures


def task(node: str, partition: str, keeper: KeeperStatus, **counts: float) -> TaskReport:
    keys = KeyCounts(**counts)  # type: ignore[arg-type]  # whole numbers but for `oldest`
    report = PartitionReport(epoch=5, keys=keys)
    return TaskReport(slot=0, level=0, node=node, partitions={partition: report}, keeper=keeper)


def test_counts_add_up_and_the_rest_is_what_was_said_last() -> None:
    figures = KeyFigures()
    for dirty, stored in ((4, 10), (2, 30)):
        keeper = KeeperStatus(stored=stored, waiting=1)
        figures.take([task("a", "W[0]", keeper, fetched=3, lost_rows=2, dirty=dirty, oldest=1.5)])
    figures.take([])
    (told,) = figures.told().values()
    assert (told.fetched, told.lost_rows, told.stored, told.waiting) == (6, 4, 30, 1)
    assert (told.changed, told.oldest) == (2, 1.5)


def test_of_a_lost_node_only_the_counts_are_told() -> None:
    """Otherwise its storage would be bypassed for ever."""
    figures = KeyFigures()
    broken = KeeperStatus(stored=10, waiting=3, storing=Breaker(12, 99.0), error="gone")
    figures.take(
        [task("a", "W[0]", broken, fetched=3, dirty=7, oldest=9.0), task("b", "W[1]", KeeperStatus())]
    )
    figures.take([task("b", "W[1]", KeeperStatus())])
    lost = figures.told()["a"]
    assert (lost.stored, lost.fetched) == (10, 3)
    assert (lost.waiting, lost.changed, lost.oldest, lost.error) == (0, 0, 0.0, "")
    assert (lost.storing_failures, lost.storing_bypassed_until) == (0, 0.0)
    assert figures.told()["b"].changed == 0


def test_a_partition_that_moved_counts_where_it_is() -> None:
    figures = KeyFigures()
    figures.take([task("a", "W[0]", KeeperStatus(), dirty=7), task("b", "W[1]", KeeperStatus(), dirty=1)])
    figures.take([task("b", "W[0]", KeeperStatus(), dirty=8), task("a", "W[2]", KeeperStatus())])
    assert [one.changed for one in figures.told().values()] == [0, 9]
