"""The health of an incident: where it stands, and whether what it took down is back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from domain.health.estimates import catch_up_words
from domain.health.shape import Health, Tone, counted

ENDED = frozenset({"recovered", "moved", "aborted", "incomplete"})
"""States in which nothing more is done for an incident."""
RECOVERED = frozenset({"recovered", "moved"})
"""Of these, the ones after which nothing is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFacts:
    """What rows say of an incident.

    moves: it only moves partitions that run. proposed: plans that wait for an approval. failed, returned:
    queries that it took down, and those of them that were available again. accepted: an operator has accepted
    that the rest is not. wanted, here: nodes that were asked for, and those of them that have joined.
    unapplied: plans that are published and that no driver has applied, as (topology, generation).
    catch_up: the longest estimate of the drivers of its topologies, in seconds.
    """

    state: str
    moves: bool = False
    paused: bool = False
    proposed: int = 0
    failed: int = 0
    returned: int = 0
    accepted: bool = False
    wanted: int = 0
    here: int = 0
    unapplied: Sequence[tuple[str, int]] = ()
    catch_up: float | None = None


def incident_health(incident: IncidentFacts) -> Health:
    state, word, tone, note = _ended(incident) or _active(incident)
    if state not in ENDED:
        if incident.proposed and state != "approval":
            word += ", waits for approval"
            tone = "warn"
        if incident.paused:
            word += ", paused"
            tone = "warn"
            note = "; ".join(one for one in (note, "no further wave is planned") if one)
    judged = incident.failed > 0
    return Health(
        state=state,
        word=word,
        tone=tone,
        value=incident.returned if judged else None,
        limit=incident.failed if judged else None,
        note=note,
    )


Shown = tuple[str, str, Tone, str]


def _ended(incident: IncidentFacts) -> Shown | None:
    if incident.state == "aborted":
        left = incident.failed - incident.returned
        was = counted(left, "query was", "queries were")
        note = f"{was} not available again; Recover now on the topology restores what is down" if left else ""
        return "aborted", "Aborted", "idle", note
    if incident.state != "closed":
        return None
    left = incident.failed - incident.returned
    if left > 0:
        was = counted(left, "query was", "queries were")
        note = f"{was} not available again" + (
            ", which an operator has accepted" if incident.accepted else ""
        )
        return "incomplete", f"Closed, {incident.returned} of {incident.failed} back", "warn", note
    return ("moved", "Moved", "done", "") if incident.moves else ("recovered", "Recovered", "done", "")


def _active(incident: IncidentFacts) -> Shown:
    match incident.state:
        case "open":
            return "open", "Opened", "bad", ""
        case "acquiring":
            return _acquiring(incident)
        case "restoring":
            return _restoring(incident)
        case "replaying":
            word = "Catching up after a move" if incident.moves else "Replaying"
            return "replaying", word, "busy", _back(incident)
        case "verifying":
            return "verifying", "Verifying", "busy", "waits for the next complete checkpoint"
        case "catching_up":
            return "catching_up", "Restored, catching up", "busy", _back(incident)
        case other:
            return other, other.replace("_", " ").capitalize(), "busy", ""


def _acquiring(incident: IncidentFacts) -> Shown:
    if incident.proposed:
        return "approval", "Waits for approval", "warn", f"{counted(incident.proposed, 'plan')} to approve"
    missing = incident.wanted - incident.here
    if missing > 0:
        note = f"{incident.here} of {counted(incident.wanted, 'requested node')} here"
        return "acquiring", "Acquiring nodes", "busy", note
    note = f"all {counted(incident.wanted, 'requested node')} here" if incident.wanted else ""
    return "room", "Waiting for room", "warn", note


def _restoring(incident: IncidentFacts) -> Shown:
    word = "Moving" if incident.moves else "Restoring"
    plans = ", ".join(f"plan {generation} of {topology}" for topology, generation in incident.unapplied)
    if not plans:
        return "restoring", word, "busy", ""
    are = "is" if len(incident.unapplied) == 1 else "are"
    return (
        "restoring",
        word,
        "busy",
        f"{plans} {are} published; the driver applies a plan when the job that it runs has ended",
    )


def _back(incident: IncidentFacts) -> str:
    parts = []
    if incident.failed:
        parts.append(
            f"{incident.returned} of {counted(incident.failed, 'failed query', 'failed queries')} back"
        )
    if incident.returned < incident.failed and (estimate := catch_up_words(incident.catch_up)):
        parts.append(f"the rest {estimate}")
    return "; ".join(parts)
