"""A bounded input of a topology with cycles ends when nothing is on feedback streams, or at a limit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from domain.execution.draining import Draining
from domain.execution.job import PartitionReport
from domain.topology import Topology
from tests.unit.domain.topology.test_cycles import LOOP, operator, topology

SENDERS = ["A[0]", "A[1]"]


def draining(limit: int = 10) -> Draining:
    return Draining(Topology(replace(LOOP.spec, drain_epochs=limit)))


def sent(epoch: int, rows: int) -> dict[str, PartitionReport]:
    """What senders report: the second one all rows."""
    counts = dict(zip(SENDERS, (0, rows), strict=True))
    return {name: PartitionReport(epoch=epoch, sent_back=counts[name]) for name in SENDERS}


def test_without_cycles_the_input_ends_with_its_last_epoch() -> None:
    one = Draining(topology(operator("S"), operator("A", "S", output=True)))
    one.planned(head=7, ended=True, final=True, epochs=0)
    assert (one.over(5), one.follows(7)) == (True, "")


def test_epochs_go_on_until_nothing_is_in_transit() -> None:
    one = draining()
    one.planned(head=7, ended=False, final=False, epochs=0)
    assert one.follows(7) == "", "the input goes on"
    one.planned(head=7, ended=True, final=False, epochs=0)
    assert one.follows(6) == "", "not all have applied the last epoch"
    one.take(sent(7, 3))
    assert (one.in_transit(), one.follows(7), one.over(7)) == (3, "open", False)
    one.planned(head=8, ended=True, final=False, epochs=1)
    assert one.in_transit() is None
    one.take(sent(8, 0))
    assert (one.follows(8), one.over(8)) == ("final", False)
    one.planned(head=9, ended=True, final=True, epochs=2)
    one.take(sent(9, 0))
    assert (one.follows(9), one.over(9), one.over(8)) == ("", True, False)


def test_what_windows_send_back_when_they_close_drains_too() -> None:
    one = draining()
    one.planned(head=9, ended=True, final=True, epochs=2)
    one.take(sent(9, 4))
    assert (one.follows(9), one.over(9)) == ("final", False)


def test_what_is_not_known_takes_an_epoch_more() -> None:
    """The driver before this one died with what tasks had told it."""
    one = draining()
    one.planned(head=9, ended=True, final=False, epochs=2)
    assert one.follows(9) == "open"


def test_an_error_tells_nothing_of_what_was_sent() -> None:
    one = draining()
    one.planned(head=9, ended=True, final=False, epochs=2)
    one.take({name: PartitionReport(epoch=9, error="no") for name in SENDERS})
    assert one.in_transit() is None


@pytest.mark.parametrize(("limit", "late_at"), [(1, 1), (10, 5)])
def test_a_cycle_that_never_drains_is_a_problem_and_ends(limit: int, late_at: int) -> None:
    one, told = draining(limit), []
    for epochs in range(limit + 1):
        one.planned(head=7 + epochs, ended=True, final=epochs == limit, epochs=epochs)
        one.take(sent(7 + epochs, 2))
        found = one.problems(7 + epochs)
        assert one.problems(7 + epochs) == [], "told twice"
        told += [(epochs, problem) for problem in found]
        follows = one.follows(7 + epochs)
        assert follows == ("" if epochs == limit else "final" if epochs + 1 == limit else "open")
        assert one.over(7 + epochs) == (epochs == limit)
    assert [epochs for epochs, _ in told] == sorted({late_at, limit})
    where, lost = told[-1][1].where, told[-1][1].what
    assert where == "cycle B -> A"
    assert lost == f"2 rows were still in transit {limit} epochs after the end of the input, and are lost"
    assert f"`drain_epochs`, which is {limit}" in told[-1][1].hint
