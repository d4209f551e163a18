"""Two pieces of evidence that the process of a node has ended, neither of which needs a time-out.

- The *lifeline*: a TCP connection from the coordinator to the agent that carries nothing. The kernel of the
  node's host closes it when the process ends, and refuses the next one. A machine that froze, or a network
  that was cut, closes nothing, and leaves connections unanswered.
- The *executor*: Spark tells the driver when the connection to one has closed. One that crashed or ran out of
  memory is started again by its node, so this alone is no loss.

Each piece concerns one session of one node, counts for `FRESH` seconds after it was first seen, and is
withdrawn by what contradicts it: a new lifeline, a heartbeat written since, an executor that is back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.messages import ExecutorGone

NEVER = float("-inf")
FRESH = 5.0
TOGETHER = 0.3
"""Seconds for which the loss of a node waits for others whose lifelines were refused with its own."""
REFUSED = "its agent's connection was closed and refused"


@dataclass(slots=True)
class DeathEvidence:
    """What speaks for the end of one node's present process. Soft state."""

    cut_at: float = NEVER
    """When the lifeline was refused."""
    _read_since: bool = False
    """Whether its heartbeat has been read after that: a further change was written by a live process."""
    _gone: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Topology -> the driver's moment, which only tells one loss of an executor from another, and ours."""
    _has_executor: bool = False

    def clear(self) -> None:
        self.restore()
        self._gone.clear()

    # ---- what is learnt --------------------------------------------------------------------------

    def cut(self, at: float) -> None:
        self.cut_at, self._read_since = at, False

    def restore(self) -> None:
        self.cut_at, self._read_since = NEVER, False

    def heartbeat_read(self, *, changed: bool) -> None:
        """The first reading after the cut may find what the process wrote just before it ended."""
        if changed and self._read_since:
            self.restore()
        self._read_since = self.cut_at > NEVER

    def told(
        self, session: str, gone_in: Mapping[str, ExecutorGone], at: float, *, has_executor: bool
    ) -> None:
        """The newest words of all drivers: topologies whose driver misses the executor of this node."""
        self._has_executor = has_executor
        before, self._gone = self._gone, {}
        for topology, gone in gone_in.items():
            if gone.session == session:
                moment, noticed = before.get(topology, (NEVER, at))
                self._gone[topology] = (gone.at, noticed if moment == gone.at else at)

    # ---- what follows ----------------------------------------------------------------------------

    def is_cut(self, now: float, within: float = FRESH) -> bool:
        return now - self.cut_at <= within

    def witnesses(self, now: float) -> list[str]:
        """Topologies whose driver lost the executor a short time ago, by name."""
        return sorted(topology for topology, (_, seen) in self._gone.items() if now - seen <= FRESH)

    def complete_since(self, now: float) -> float:
        """For how many seconds there have been both pieces; infinite unless both count."""
        seen = [self._gone[topology][1] for topology in self.witnesses(now)]
        return now - max(self.cut_at, min(seen)) if seen and self.is_cut(now) else float("inf")

    def loss(self, now: float, *, heard_at: float, worked_at: float, patience: float, in_grace: bool) -> str:
        """Why the node is lost, in words, or nothing. patience: silence that confirms a refused lifeline
        where no driver can, and that is wanted in addition while nodes have time to register again."""
        if not self.is_cut(now):
            return ""
        quiet = now - max(heard_at, self.cut_at)
        topologies = self.witnesses(now)
        if topologies:
            lost = (
                f"the driver of {topologies[0]} lost its executor"
                if len(topologies) == 1
                else f"the drivers of {', '.join(topologies)} lost their executors on it"
            )
            return f"{REFUSED}, and {lost}" if quiet >= patience or not in_grace else ""
        if in_grace or self._has_executor or min(quiet, now - worked_at) < patience:
            return ""
        return f"{REFUSED}, and its heartbeat has been silent for {quiet:.1f} s since then"
