"""Plans that an operator confirms before they are carried out (approval policy `approve`)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from domain.planning import natural_key
from domain.recovery import wording
from domain.recovery.incident import TopologyCase
from domain.recovery.instructions import Instruction
from domain.recovery.method import Wave
from domain.recovery.replacements import Replacements


class Proposals(Replacements):
    """A wave becomes a proposal with an id made of what it does: once the situation asks for another wave,
    that is another proposal, and the confirmation of the old one is worth nothing."""

    def _propose(self, case: TopologyCase, wave: Wave) -> list[Instruction] | None:
        """What to tell of a wave that must not be carried out yet; None if it may be."""
        deployment = self.deployments[case.name]
        if deployment.policy.approval == "automatic":
            return None
        proposal = proposal_id(case, deployment.generation, wave)
        if proposal in self.memory.approved:
            return None
        before = self.memory.proposal(case.name, deployment.generation)
        if before == proposal:
            return []
        overtaken = before if before in self.memory.approved else None
        fact = {
            "fact": "proposed",
            "topology": case.name,
            "generation": deployment.generation,
            "proposal": proposal,
            "wave": case.wave + 1,
            "method": wave.method,
            "rollback": wave.rollback,
            "restore": list(wave.restore),
            "queries": list(wave.queries),
            "reason": wave.reason,
            "explanation": dict(wave.explanation),
        }
        return self._tell("decision", wording.proposed(case.name, proposal, wave.reason, overtaken), fact)

    def _confirmed(self, case: TopologyCase, wave: Wave) -> str | None:
        """The proposal an operator confirmed, if this wave is that."""
        proposal = proposal_id(case, self._generation(case.name), wave)
        return proposal if proposal in self.memory.approved else None

    def _withdraw(self, case: TopologyCase, why: str) -> list[Instruction]:
        """Nothing is proposed any more, because there is nothing that could be done now."""
        proposal = self.memory.proposal(case.name, self._generation(case.name))
        if proposal is None:
            return []
        fact = {"fact": "withdrawn", "topology": case.name, "proposal": proposal}
        return self._tell("decision", f"Proposal {proposal} is withdrawn. {why}", fact)

    def open_proposals(self) -> dict[str, str]:
        """Topology -> the proposal that waits for a confirmation."""
        found: dict[str, str] = {}
        for name, case in sorted(self.cases.items()):
            proposal = self.memory.proposal(name, self._generation(name))
            if case.awaits_wave and proposal is not None and proposal not in self.memory.approved:
                found[name] = proposal
        return found


def proposal_id(case: TopologyCase, generation: int, wave: Wave) -> str:
    """`counts-w2-1a2b3c4d5e`: the same for the same wave in the same situation. The checkpoint is not part
    of it: a newer one that is completed meanwhile only shortens the replay."""
    what: list[Any] = [
        generation,
        wave.method,
        wave.rollback,
        sorted(wave.restore, key=natural_key),
        sorted(wave.assignment.items()),
    ]
    digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:10]
    return f"{case.name}-w{case.wave + 1}-{digest}"
