"""Plans that an operator confirms before they are carried out (approval policy `approve`).

A wave becomes a proposal with an id made of what it does: once the situation asks for another wave, that is
another proposal, and a confirmation of the old one has no effect.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from domain.planning import natural_key
from domain.recovery.facts import Proposed
from domain.recovery.incident import TopologyCase
from domain.recovery.memory import Memory
from domain.recovery.method import Wave


def proposal_of(case: TopologyCase, generation: int, wave: Wave) -> Proposed:
    """What is proposed to the operator. generation: of the topology now."""
    return Proposed(
        topology=case.name,
        generation=generation,
        proposal=proposal_id(case, generation, wave),
        wave=case.wave + 1,
        method=wave.method,
        rollback=wave.rollback,
        restore=wave.restore,
        queries=wave.queries,
        reason=wave.reason,
        explanation=dict(wave.explanation),
    )


def proposal_id(case: TopologyCase, generation: int, wave: Wave) -> str:
    """`counts-w2-1a2b3c4d5e`: the same for the same wave in the same situation. The checkpoint is part of it
    only where an operator chose it: a newer one that is completed meanwhile only shortens the replay."""
    what: list[Any] = [
        generation,
        wave.method,
        wave.rollback,
        case.origin if case.origin == wave.checkpoint else None,
        sorted(wave.restore, key=natural_key),
        sorted(wave.assignment.items()),
    ]
    digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:10]
    return f"{case.name}-w{case.wave + 1}-{digest}"


def unconfirmed(
    cases: Mapping[str, TopologyCase], generations: Mapping[str, int], memory: Memory
) -> dict[str, Proposed]:
    """Topology -> the proposal that waits for a confirmation. generations: of the topologies now."""
    found: dict[str, Proposed] = {}
    for name, case in sorted(cases.items()):
        proposed = memory.proposal(name, generations[name])
        if case.awaits_wave and proposed is not None and proposed.proposal not in memory.approved:
            found[name] = proposed
    return found
