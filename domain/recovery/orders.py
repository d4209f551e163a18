"""What operators ask for: recover now, approve, pause, resume, plan anew, abort."""

from __future__ import annotations

from domain.recovery import wording
from domain.recovery.events import (
    AbortAsked,
    ApproveAsked,
    PauseAsked,
    RecoveryAsked,
    ReplanAsked,
    ResumeAsked,
)
from domain.recovery.incident import ENDED_PHASES, PLAN_PHASES, Phase, State
from domain.recovery.instructions import Instruction
from domain.recovery.waves import Waves


class Orders(Waves):
    """Asking twice for the same does it once."""

    def _on_recovery_asked(self, event: RecoveryAsked) -> list[Instruction]:
        if event.topology not in self.deployments:
            return []
        case = self.cases.get(event.topology)
        if case is not None and case.phase in PLAN_PHASES and not case.awaits_wave:
            return self._tell(
                "stimulus",
                f"{event.actor} asked to recover {event.topology} now ({event.reason}); "
                f"plan {case.generation} is under way already.",
            )
        down = frozenset() if case is not None and case.failed else self._down(event.topology)
        forced = not down and (case is None or not case.failed)
        generation = self.deployments[event.topology].generation
        if event.checkpoint is not None and not forced:
            text = wording.restore_refused(event.topology, event.actor, event.checkpoint)
            return self._tell("stimulus", text)
        fact = {
            "fact": "asked",
            "topology": event.topology,
            "forced": forced,
            "generation": generation,
            "checkpoint": event.checkpoint,
        }
        text = wording.recovery_asked(event.topology, event.actor, event.reason, forced, event.checkpoint)
        instructions = self._tell("stimulus", text, fact)
        if forced:
            instructions += self._fail(event.topology, frozenset(), f"asked by {event.actor}")
            self.cases[event.topology].forced = True
            self.cases[event.topology].origin = event.checkpoint
        elif down:
            instructions += self._tell(
                "evidence",
                f"Down since before: {wording.listed(down)}.",
                self._lost_fact((), {event.topology: down}),
            )
            instructions += self._fail(event.topology, down, f"asked by {event.actor}")
        return instructions

    def _on_approved(self, event: ApproveAsked) -> list[Instruction]:
        if event.proposal in self.memory.approved:
            return []
        if event.proposal not in self.open_proposals().values():
            return self._tell(
                "stimulus",
                f"{event.actor} confirmed proposal {event.proposal} ({event.reason}), but the situation has "
                "changed since: it is not carried out.",
            )
        fact = {"fact": "approved", "proposal": event.proposal, "actor": event.actor, "reason": event.reason}
        return self._tell(
            "stimulus", f"{event.actor} confirmed proposal {event.proposal}: {event.reason}.", fact
        )

    def _on_paused(self, event: PauseAsked) -> list[Instruction]:
        if self.memory.paused:
            return []
        text = (
            f"{event.actor} paused the recovery: {event.reason}. What is under way goes on; nothing new is "
            "planned and no node is asked for until it is resumed."
        )
        return self._tell("stimulus", text, {"fact": "paused", "actor": event.actor, "reason": event.reason})

    def _on_resumed(self, event: ResumeAsked) -> list[Instruction]:
        if not self.memory.paused:
            return []
        text = f"{event.actor} resumed the recovery: {event.reason}."
        return self._tell("stimulus", text, {"fact": "resumed", "actor": event.actor, "reason": event.reason})

    def _on_replan(self, event: ReplanAsked) -> list[Instruction]:
        waiting = [name for name, case in self.cases.items() if case.awaits_wave]
        fact = {
            "fact": "replan",
            "actor": event.actor,
            "reason": event.reason,
            "asked": {name: self._generation(name) for name in sorted(waiting)},
        }
        text = f"{event.actor} asked to plan anew with the nodes there are now: {event.reason}."
        instructions = self._tell("stimulus", text, fact)
        for case in self.cases.values():
            if case.phase in (Phase.PLANNED, Phase.PUBLISHED):
                instructions += self._transition(case, Phase.FAILED, f"{event.actor} asked to plan anew")
        return instructions

    def _on_abort(self, event: AbortAsked) -> list[Instruction]:
        instructions = self._tell("outcome", f"{event.actor} aborted the recovery: {event.reason}.")
        for case in self.cases.values():
            if case.phase not in ENDED_PHASES:
                instructions += self._transition(case, Phase.DROPPED, "the recovery was aborted")
        return [*instructions, *self._enter(State.ABORTED)]
