"""The decisions taken whenever something has changed: methods, plans, proposals, the incident's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from domain.planning import LookAhead
from domain.recovery import wording
from domain.recovery.costs import costs_fix
from domain.recovery.incident import (
    ENDED_PHASES,
    ENDED_STATES,
    Phase,
    State,
    TopologyCase,
)
from domain.recovery.instructions import (
    CreatePlan,
    EnterState,
    Instruction,
    KeepCosts,
    MarkPartitions,
)
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.policy import INCREMENTAL, method_choose
from domain.recovery.proposals import Proposals
from domain.recovery.replacements import NO_MORE

_STATE_OF_PHASE = {
    Phase.FAILED: State.ACQUIRING,
    Phase.PLANNED: State.RESTORING,
    Phase.PUBLISHED: State.RESTORING,
    Phase.REPLAYING: State.REPLAYING,
    Phase.VERIFYING: State.VERIFYING,
}


class Waves(Proposals):
    """What follows from the present state of an incident."""

    def _look_again(self) -> list[Instruction]:
        """What follows from the present state: requests for nodes, plans, the state of the incident."""
        if self.state in ENDED_STATES:
            return []
        instructions = self._keep_costs()
        if not self.memory.paused:
            instructions += self._ask_for_nodes()
        if self.may_plan:
            instructions += self._look_at_cases()
        return [*instructions, *self._enter(self._derived_state())]

    def _keep_costs(self) -> list[Instruction]:
        if all(case.phase in ENDED_PHASES for case in self.cases.values()):
            return []
        fixed = costs_fix(self.deployments, self.nodes, self.memory.costs, self.max_utilisation)
        if not fixed:
            return []
        self.memory.costs.update(fixed)
        return [KeepCosts(costs=fixed)]

    def _look_at_cases(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        for name in sorted(self.cases):
            if self.cases[name].awaits_wave:
                instructions += self._check(self.cases[name])
        if self.memory.paused:
            return instructions
        waiting = [case for _, case in sorted(self.cases.items()) if case.awaits_wave]
        joint: list[TopologyCase] = []
        for case in waiting:
            method, told = self._method(case)
            instructions += told
            # Where nothing is down and all is to go back all the same, there is nothing to choose from.
            if method == INCREMENTAL and case.failed:
                joint.append(case)
        # Queries come before whole topologies: what blocks can wait a little longer for its room.
        instructions += self._decide(self.incremental.next_waves(joint, self._situation()))
        for case in waiting:
            if case not in joint:
                instructions += self._decide(self.blocking.next_waves([case], self._situation()))
        return instructions

    def _check(self, case: TopologyCase) -> list[Instruction]:
        """Whether there is anything to plan at all."""
        if case.name not in self.deployments:
            return self._transition(case, Phase.DROPPED, "it is not deployed any more")
        if case.failed or case.forced:
            return []
        down = self._down(case.name)
        if not down:
            return self._transition(case, Phase.DROPPED, "a newer plan has replaced what was lost")
        told = f"The plan now in force has partitions on lost nodes: {wording.listed(down)}."
        fact = self._lost_fact((), {case.name: down})
        return [*self._fail(case.name, down, "still down"), *self._tell("evidence", told, fact)]

    def _method(self, case: TopologyCase) -> tuple[str, list[Instruction]]:
        situation = self._situation()
        method, why = method_choose(
            self.deployments[case.name].policy,
            so_far=case.method,
            down=situation.down(case.name),
            moments=[moment for moment, _ in self.memory.loss_times],
        )
        if self.memory.method.get(case.name) == method:
            return method, []
        fact = {"fact": "method", "topology": case.name, "method": method}
        return method, self._tell("decision", wording.method_chosen(case.name, method, why), fact)

    def _situation(self) -> Situation:
        asked = {t for t, generation in self.memory.asked.items() if generation == self._generation(t)}
        drained = {
            name
            for name, case in self.cases.items()
            if name in self.deployments
            and case.failed
            and {self.deployments[name].assignment.get(p) for p in case.failed} <= self.memory.drained
        }
        return Situation(
            cases=self.cases,
            deployments=self.deployments,
            nodes={
                name: replace(node, usable=node.usable and name not in self.memory.avoided)
                for name, node in self.nodes.items()
            },
            costs=self.memory.costs,
            lost=frozenset(self.memory.lost),
            expected=len(self._expected()),
            expedited=frozenset(asked | drained),
            max_utilisation=self.max_utilisation,
            arrivals=self._arrivals() if self._looks_ahead() else (),
            drained=frozenset(self.memory.drained),
        )

    def _looks_ahead(self) -> bool:
        """Whether any planner wants to know when nodes are expected, which takes a while to work out."""
        cases = (self.deployments[name] for name in self.cases if name in self.deployments)
        return any(deployment.policy.planner == LookAhead.name for deployment in cases)

    def _decide(self, decisions: Mapping[str, Wave | Waiting]) -> list[Instruction]:
        instructions: list[Instruction] = []
        for name, decision in decisions.items():
            case = self.cases[name]
            if isinstance(decision, Waiting):
                further = self._ask_for_one_more(case) if decision.short else []
                if decision.short and not further:
                    decision = Waiting(f"{decision.reason} {NO_MORE}")
                instructions += self._wait(case, decision) + further
                continue
            unconfirmed = self._propose(case, decision)
            instructions += self._plan(case, decision) if unconfirmed is None else unconfirmed
        return instructions

    def _wait(self, case: TopologyCase, waiting: Waiting) -> list[Instruction]:
        instructions = self._withdraw(case, waiting.reason)
        if self.memory.waiting.get(case.name) == waiting.reason:
            return instructions
        fact = {"fact": "waiting", "topology": case.name, "reason": waiting.reason}
        return [*instructions, *self._tell("decision", f"{case.name}: {waiting.reason}", fact)]

    def _plan(self, case: TopologyCase, wave: Wave) -> list[Instruction]:
        deployment = self.deployments[case.name]
        expected, generation = deployment.generation, deployment.generation + 1
        explanation = dict(wave.explanation)
        if (proposal := self._confirmed(case, wave)) is not None:
            explanation["proposal"] = proposal
        plan = CreatePlan(
            topology=case.name,
            expected=expected,
            generation=generation,
            wave=case.wave + 1,
            kind="recover" if wave.restore else "restore",
            method=wave.method,
            rollback=wave.rollback,
            buffering=wave.buffering,
            checkpoint=wave.checkpoint,
            assignment=dict(wave.assignment),
            restore=wave.restore,
            reason=wave.reason,
            explanation=explanation,
        )
        case.failed -= set(wave.restore)
        case.restore, case.unrestored, case.forced = frozenset(wave.restore), set(), False
        case.generation, case.wave, case.checkpoint = generation, plan.wave, wave.checkpoint
        case.method, case.rollback, case.owed = wave.method, wave.rollback, False
        deployment.generation, deployment.assignment = generation, dict(wave.assignment)
        text = f"Plan {generation}, wave {plan.wave}: {wave.reason}"
        # Query by query the plan itself explains; the story needs the outline.
        outline = {name: value for name, value in explanation.items() if name != "explanations"}
        told = self._tell("decision", text, outline)
        # Rebuilding knows what a plan leaves out, but not what still runs and is yet to move.
        moving = case.failed & wave.assignment.keys()
        if moving:
            fact = {"fact": "still_failed", "failed": self._failed_fact({case.name: moving})}
            told += self._tell("step", f"Still to move: {wording.listed(moving)}.", fact)
        restored: list[Instruction] = [
            MarkPartitions(topology=case.name, state="restoring", partitions=frozenset(wave.restore))
        ]
        return [plan, *told, *restored, *self._transition(case, Phase.PLANNED, "planned")]

    # ---- the state of the incident ---------------------------------------------------------------

    def _derived_state(self) -> State:
        """That of the least advanced case; without cases, the wait for spare capacity."""
        active = [case for case in self.cases.values() if case.phase not in ENDED_PHASES]
        if active:
            return min((self._state_of(case) for case in active), key=list(State).index)
        if not self.cases and any(
            request.state in ("pending", "started") and self.memory.losses[request.lost_node] > 0
            for request in self.requests.values()
        ):
            return State.ACQUIRING
        return State.CLOSED

    def _state_of(self, case: TopologyCase) -> State:
        """What is still failed waits for a node: behind a wave that has caught up, or for all at once."""
        caught_up = self.memory.caught_up.get(case.name) == case.generation
        if case.phase is Phase.REPLAYING and case.failed and (caught_up or case.method != INCREMENTAL):
            return State.ACQUIRING
        return _STATE_OF_PHASE[case.phase]

    def _enter(self, state: State) -> list[Instruction]:
        if state is self.state:
            return []
        self.state = state
        instructions: list[Instruction] = [EnterState(state=state)]
        if state is State.CLOSED:
            instructions += self._tell("outcome", self._closing_words())
        return instructions

    def _closing_words(self) -> str:
        took = coming = ""
        if self.opened_at is not None:
            took = f" It took {wording.duration(self.now - self.opened_at)}."
        recovered = [name for name, case in self.cases.items() if case.phase is Phase.VERIFIED]
        pending = [r for r in self.requests.values() if r.state in ("pending", "started")]
        if pending:
            coming = f" {wording.counted(len(pending), 'replacement')} will still join as spare."
        if recovered:
            return f"Closed: {wording.listed(recovered)} recovered and verified.{took}{coming}"
        return f"Closed: nothing is left to recover.{took}{coming}"
