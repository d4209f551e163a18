"""What the story of an incident records for the coordinator: one record per kind of fact.

A fact is stored as JSON with the sentence of the story that tells it (`IncidentEntry.data`), shown in that
form by REST and the export, and read back when a coordinator rebuilds the machine. `fact` in the JSON names
the kind. Only `Memory` interprets facts.

Partitions are named by their ids; a generation is that of a plan, or of a topology's newest plan. What failed
or was asked under a generation no longer counts once the topology has a higher one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec


class Failed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Partitions of one topology that are down or are to move."""

    generation: int  # of the topology's newest plan at that moment
    partitions: tuple[str, ...]


class _Fact(msgspec.Struct, tag_field="fact", frozen=True, forbid_unknown_fields=True):
    """`tag`: the kind that is stored; a kind is never renamed."""


class Lost(_Fact, frozen=True, tag="lost"):
    """Nodes were lost, or partitions were found down although no node was lost with them."""

    at: float  # seconds since 1970; decides which losses are correlated
    nodes: tuple[str, ...]  # empty where only partitions are concerned
    failed: dict[str, Failed]  # topology -> what failed with it
    avoid: tuple[str, ...] = ()  # living nodes on which these partitions do not run


class Returned(_Fact, frozen=True, tag="returned"):
    """A lost node was alive all the time."""

    node: str
    # Topology -> partitions that still run there, because no plan moved them.
    kept: dict[str, tuple[str, ...]]


class TakenOver(_Fact, frozen=True, tag="taken_over"):
    """Replicas act for partitions that had failed."""

    topology: str
    acting: dict[str, str]  # partition -> node


class Tentative(_Fact, frozen=True, tag="tentative"):
    """Queries go on without a part of their input."""

    topology: str
    queries: tuple[str, ...]


class Arrived(_Fact, frozen=True, tag="arrived", omit_defaults=True):
    """A node registered that has nothing to run yet, or a drained one may take partitions again."""

    node: str
    kept: dict[str, tuple[str, ...]] = {}  # topology -> partitions that were to move, and stay there


class Drained(_Fact, frozen=True, tag="drained"):
    """An operator is emptying a living node."""

    node: str
    failed: dict[str, Failed]  # topology -> what is to move


class StillFailed(_Fact, frozen=True, tag="still_failed"):
    """A plan was made that does not move everything yet that is to leave a drained node."""

    failed: dict[str, Failed]  # topology -> what is still to move, by the generation of that plan


class Spread(_Fact, frozen=True, tag="spread"):
    """Partitions that a plan restores on nodes which have not begun with them are planned again."""

    topology: str
    failed: Failed
    nodes: tuple[str, ...]  # for whose sake: they joined since, or were filled by different waves


class Rebalancing(_Fact, frozen=True, tag="rebalancing"):
    """Partitions that run are to change their node, which evens out the nodes."""

    topology: str
    generation: int
    moves: dict[str, str]  # partition -> node to which it is to go


class RoomMade(_Fact, frozen=True, tag="room_made"):
    """What runs is to change its node, so that queries that are out have room."""

    down: int  # how many partitions were down
    nodes: tuple[str, ...]  # that could take partitions


class Parked(_Fact, frozen=True, tag="parked"):
    """These queries are stopped until they are unparked: no plan runs what only they need."""

    topology: str
    queries: tuple[str, ...]  # all that are parked from now on; empty: none
    by_policy: tuple[str, ...] = ()  # those of them that no operator asked for
    limits: dict[str, float] = {}  # node -> CPU percent that may be planned there, where more proved too much


class Unrestored(_Fact, frozen=True, tag="unrestored"):
    """A plan was discarded before it was known to be applied."""

    topology: str
    generation: int
    partitions: tuple[str, ...]  # what it was to restore
    forced: bool  # the next plan is made also if nothing is down
    rollback_pending: bool  # the discarded plan carried a rollback, so the next one must carry it


class RecoveryRequested(_Fact, frozen=True, tag="asked"):
    """An operator asked to recover a topology with the nodes there are."""

    topology: str
    generation: int
    forced: bool  # nothing was down: all of it goes back to a checkpoint
    checkpoint: int | None = None  # the one the operator chose; None: the newest


class PlanApplied(_Fact, frozen=True, tag="applied"):
    """The driver has applied this plan."""

    topology: str
    generation: int


class Refused(_Fact, frozen=True, tag="refused"):
    """The driver cannot apply this plan, because the checkpoint it starts from is not kept any more."""

    topology: str
    generation: int
    checkpoint: int  # of the plan
    restorable: tuple[int, ...]  # that the driver could go back to, ascending; 0 is the empty state


class CaughtUp(_Fact, frozen=True, tag="caught_up"):
    """All that this plan put back works live."""

    topology: str
    generation: int


class Verifying(_Fact, frozen=True, tag="verifying"):
    """Nothing is failed, absent or behind; the next global checkpoint is awaited."""

    topology: str
    generation: int


class Dropped(_Fact, frozen=True, tag="dropped"):
    """Nothing is left to recover of this topology."""

    topology: str
    generation: int


class Deferred(_Fact, frozen=True, tag="waiting"):
    """No plan can be made now."""

    topology: str
    reason: str  # as it was told; one that differs in numbers only is not told again


class MethodChosen(_Fact, frozen=True, tag="method"):
    """The method that recovers a topology was chosen or has changed."""

    topology: str
    method: str


class Proposed(_Fact, frozen=True, tag="proposed"):
    """A plan waits for the confirmation of an operator."""

    topology: str
    generation: int  # of the topology; the plan will have the next one
    proposal: str  # its id, made of what it does
    wave: int
    method: str
    rollback: bool
    restore: tuple[str, ...]
    queries: tuple[str, ...]  # that become whole
    reason: str
    explanation: dict[str, Any]  # the planner's, as a plan has it


class Withdrawn(_Fact, frozen=True, tag="withdrawn"):
    """Nothing is proposed any more, because nothing can be done now."""

    topology: str
    proposal: str


class Approved(_Fact, frozen=True, tag="approved"):
    """An operator confirmed this proposal."""

    proposal: str
    actor: str
    reason: str


class Paused(_Fact, frozen=True, tag="paused"):
    """An operator paused the recovery."""

    actor: str
    reason: str


class Resumed(_Fact, frozen=True, tag="resumed"):
    """An operator resumed the recovery."""

    actor: str
    reason: str


class Accepted(_Fact, frozen=True, tag="accepted"):
    """An operator accepted that queries are not available as before, or not at all."""

    actor: str
    reason: str
    queries: int  # how many that were


class Replanned(_Fact, frozen=True, tag="replan"):
    """An operator asked to plan anew: proposals and confirmations are void."""

    actor: str
    reason: str
    asked: dict[str, int]  # topology that awaits a plan -> generation; it uses the nodes there are


Fact = (
    Lost
    | Returned
    | Arrived
    | Drained
    | StillFailed
    | Spread
    | Rebalancing
    | RoomMade
    | Parked
    | Unrestored
    | RecoveryRequested
    | PlanApplied
    | Refused
    | CaughtUp
    | Verifying
    | Dropped
    | TakenOver
    | Tentative
    | Deferred
    | MethodChosen
    | Proposed
    | Withdrawn
    | Approved
    | Paused
    | Resumed
    | Accepted
    | Replanned
)

DECODER: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)


class UnreadableFactError(Exception):
    """A stored fact is none that this version knows; names the incident and the entry of its story."""

    def __init__(self, incident: int, entry: int, problem: str) -> None:
        self.incident, self.entry = incident, entry
        super().__init__(
            f"incident {incident} cannot go on: the fact stored with entry {entry} of its story "
            f"cannot be read ({problem}). Abort it, then recover its topologies now"
        )


def fact_write(fact: Fact) -> dict[str, Any]:
    """The fact as it is stored and shown."""
    written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(fact))
    return written


def facts_read(incident: int, rows: Iterable[tuple[int, str]], *, damaged: bool = False) -> Iterator[Fact]:
    """The facts of an incident from (entry id, JSON text) in their order. damaged: leave out those that
    cannot be read. Otherwise raises `UnreadableFactError`."""
    for entry, text in rows:
        try:
            yield DECODER.decode(text)
        except msgspec.MsgspecError as error:
            if not damaged:
                raise UnreadableFactError(incident, entry, str(error)) from error
