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
    `deployed`: generation of the plan that deployed the topology."""

    epoch: int
    origin_us: int
    watermark: int | None
    final: bool
    tuples: dict[str, int] = field(default_factory=dict)
    deployed: int = 0


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
    origin, committed, deployed = None, 0, 0
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            entry = msgspec.json.decode(line)
            kind = entry["t"]
            if kind == "start":
                origin = entry["origin_us"]
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
    return replace(_extent(log, committed, origin, plans), deployed=deployed)


def _extent(log: Path, committed: int, origin: int, plans: dict[int, dict[str, Any]]) -> Extent:
    if committed == 0:
        return Extent(0, origin, None, False)
    plan, following = plans.get(committed), plans.get(committed + 1)
    if plan is not None:
        ends = {source: slices[1] for source, slices in plan["slices"].items()}
        watermark, final = plan["watermark"], bool(plan.get("final"))
    elif following is not None:
        ends = {source: slices[0] for source, slices in following["slices"].items()}
        watermark, final = following["previous_watermark"], False
    else:
        raise VerificationError(
            where=str(log),
            what=f"the log no longer holds epoch {committed}, the last one committed",
            hint="Try again when the next epoch is committed.",
        )
    tuples = {source: int(end.get("tuple", 0)) for source, end in ends.items()}
    return Extent(committed, origin, watermark, final, tuples)
