"""How far a topology has come: what its epoch log says it has read and committed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from controlplane.verification.problems import VerificationError


@dataclass(frozen=True, slots=True)
class Extent:
    """Up to the last committed epoch: tuples read of each source, and the watermark (microseconds since the
    Unix epoch, None before the first epoch). `final`: the input has ended and all windows are closed.
    `deployed`: generation of the plan that deployed the topology. `begun_after`: the extent of the savepoint
    that the deployment began with, whose rows are in the outputs of another; None if it began with the first
    tuple, or with a savepoint in a version that did not note that."""

    epoch: int
    origin_us: int
    watermark: int | None
    final: bool
    tuples: dict[str, int] = field(default_factory=dict)
    deployed: int = 0
    begun_after: Extent | None = None


def extent_read(log: Path) -> Extent:
    """Read `topologies/<name>/epochs.log`; a torn last line does not count. Raises `VerificationError`."""
    try:
        content = log.read_bytes()
    except OSError as error:
        raise VerificationError(
            where=str(log),
            what=f"the epoch log cannot be read: {error.strerror}",
            hint="Has the topology been started with this RESURGE_HOME?",
        ) from error
    plans: dict[int, dict[str, Any]] = {}
    origin, committed, deployed, after = None, 0, 0, None
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            entry = msgspec.json.decode(line)
            kind = entry["t"]
            if kind == "start":
                origin, after = entry["origin_us"], entry.get("after")
                after = after and _of_plan(after, origin)
            elif kind == "plan":
                plans[entry["epoch"]] = entry
            elif kind in ("commit", "applied"):
                committed = entry["epoch"]
                deployed = entry.get("deployed", deployed)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise VerificationError(
                where=f"{log}, line {number}", what=f"the line is damaged: {error}", hint="Restore the log."
            ) from error
    if origin is None:
        raise VerificationError(where=str(log), what="the log has no start", hint="Has the topology run?")
    return replace(_extent(log, committed, origin, plans), deployed=deployed, begun_after=after)


def _extent(log: Path, committed: int, origin: int, plans: dict[int, dict[str, Any]]) -> Extent:
    if committed == 0:
        return Extent(0, origin, None, False)
    plan, following = plans.get(committed), plans.get(committed + 1)
    if plan is not None:
        return _of_plan(plan, origin)
    if following is not None:
        ends = {source: slices[0] for source, slices in following["slices"].items()}
        watermark = following["previous_watermark"]
    else:
        raise VerificationError(
            where=str(log),
            what=f"the log no longer holds epoch {committed}, the last one committed",
            hint="Try again when the next epoch is committed.",
        )
    return Extent(committed, origin, watermark, False, _tuples(ends))


def _of_plan(plan: dict[str, Any], origin: int) -> Extent:
    """Up to the end of an epoch."""
    tuples = _tuples({source: slices[1] for source, slices in plan["slices"].items()})
    return Extent(plan["epoch"], origin, plan["watermark"], bool(plan.get("final")), tuples)


def _tuples(ends: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {source: int(end.get("tuple", 0)) for source, end in ends.items()}
