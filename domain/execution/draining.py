"""The end of a bounded input where a topology has cycles: epochs go on until feedback streams carry no row.
Pure.

An epoch after the input reads nothing but what feedback streams bring. The last one is planned as final, so
that windows close, once the epoch before it has sent nothing back. Where the last one did send something, it
is followed by others that are final as well. A topology may drain for `drain_epochs`; then it ends, and what
is still in transit is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.execution.instructions import TellProblem
from domain.execution.job import PartitionReport
from domain.topology import Topology

LATE = 0.5
"""Share of the epochs that a topology may drain for, after which operators are told."""


@dataclass(slots=True)
class Draining:
    """ended: the input has ended by the newest epoch that is planned, `head`. epochs: how many have been
    planned since; final: windows closed in the newest. Rows that partitions sent back are known by partition,
    with the epoch in which they did; those of a driver that died are not."""

    topology: Topology
    head: int = 0
    ended: bool = False
    final: bool = False
    epochs: int = 0
    _sent: dict[str, tuple[int, int]] = field(default_factory=dict)
    _told: str = ""

    @property
    def needed(self) -> bool:
        return bool(self.topology.fed_back)

    def planned(self, *, head: int, ended: bool, final: bool, epochs: int) -> None:
        """The epoch log names the epochs up to `head`."""
        self.head, self.ended, self.final, self.epochs = head, ended, final, epochs

    def take(self, reports: Mapping[str, PartitionReport]) -> None:
        """A job has ended."""
        for partition in self.topology.fed_back.keys() & reports.keys():
            if not reports[partition].error:
                self._sent[partition] = reports[partition].epoch, reports[partition].sent_back

    def in_transit(self) -> int | None:
        """Rows that the newest epoch sent back; None if that is not known."""
        known = [self._sent.get(partition, (0, 0)) for partition in self.topology.fed_back]
        return sum(rows for _, rows in known) if all(epoch == self.head for epoch, _ in known) else None

    def over(self, committed: int) -> bool:
        """Whether no epoch follows. committed: the newest epoch that all partitions have applied."""
        if not self.needed:
            return self.ended
        if not (self.ended and self.final and committed == self.head):
            return False
        return self.in_transit() == 0 or self.epochs >= self.topology.spec.drain_epochs

    def follows(self, committed: int) -> str:
        """Which epoch follows the end of the input: "" none yet, "open" or "final"."""
        if not (self.needed and self.ended) or committed < self.head or self.over(committed):
            return ""
        last = self.epochs + 1 >= self.topology.spec.drain_epochs
        return "final" if last or self.final or self.in_transit() == 0 else "open"

    def problems(self, committed: int) -> list[TellProblem]:
        """What operators are told of a topology that drains for long, or did not, once for each."""
        limit = self.topology.spec.drain_epochs
        rows = self.in_transit() if self.ended and committed == self.head else 0
        late = self.epochs >= max(1.0, LATE * limit)
        if not rows or not late:
            return []
        cycles = "; ".join(" -> ".join(one.operators) for one in self.topology.components)
        given_up = self.over(committed)
        what = (
            f"{rows} rows were still in transit {self.epochs} epochs after the end of the input, and are lost"
            if given_up
            else f"{rows} rows are still in transit {self.epochs} epochs after the end of the input"
        )
        hint = f"Let what goes round become less, or raise `drain_epochs`, which is {limit}."
        if self._told == ("lost" if given_up else "late"):
            return []
        self._told = "lost" if given_up else "late"
        return [TellProblem(f"cycle {cycles}", what, hint)]
