"""The decisions taken whenever something has changed: plans, requests for nodes, the incident's state."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.planning import natural_key
from controlplane.domain.recovery import wording
from controlplane.domain.recovery.incident import (
    ENDED_PHASES,
    ENDED_STATES,
    AskForNode,
    CreatePlan,
    EnterState,
    GiveUpRequest,
    Instruction,
    MarkPartitions,
    Phase,
    Request,
    State,
    TopologyCase,
)
from controlplane.domain.recovery.method import Situation, Waiting, Wave
from controlplane.domain.recovery.transitions import Transitions

JOIN_LIMIT = 120.0  # seconds a started replacement may take to register before another is asked for

_STATE_OF_PHASE = {
    Phase.FAILED: State.ACQUIRING,
    Phase.PLANNED: State.RESTORING,
    Phase.PUBLISHED: State.RESTORING,
    Phase.REPLAYING: State.REPLAYING,
    Phase.VERIFYING: State.VERIFYING,
}


class Waves(Transitions):
    """What follows from the present state of an incident."""

    def _look_again(self) -> list[Instruction]:
        """What follows from the present state: plans, requests for nodes, the state of the incident."""
        if self.state in ENDED_STATES:
            return []
        instructions = self._ask_for_nodes()
        for name in sorted(self.cases):
            case = self.cases[name]
            if case.phase is Phase.FAILED:
                instructions += self._decide(case)
        return [*instructions, *self._enter(self._derived_state())]

    def _decide(self, case: TopologyCase) -> list[Instruction]:
        if not self.may_plan:
            return []
        if case.name not in self.deployments:
            return self._transition(case, Phase.DROPPED, "it is not deployed any more")
        instructions: list[Instruction] = []
        if not case.failed and not case.forced:
            down = self._down(case.name)
            if not down:
                return self._transition(case, Phase.DROPPED, "a newer plan has replaced what was lost")
            fact = {"fact": "lost", "nodes": [], "failed": self._failed_fact({case.name: down})}
            told = f"The plan now in force has partitions on lost nodes: {wording.listed(down)}."
            instructions += [*self._fail(case.name, down, "still down"), *self._tell("evidence", told, fact)]
        decision = self.method.next_wave(case, self._situation())
        if isinstance(decision, Wave):
            return [*instructions, *self._plan(case, decision)]
        instructions += self._wait(case, decision)
        if decision.short:
            instructions += self._ask_for_one_more(case)
        return instructions

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
            lost=frozenset(self.memory.lost),
            expected=sum(request.state in ("pending", "started") for request in self.requests.values()),
            expedited=frozenset(asked | drained),
            max_utilisation=self.max_utilisation,
        )

    def _wait(self, case: TopologyCase, waiting: Waiting) -> list[Instruction]:
        if self.memory.waiting.get(case.name) == waiting.reason:
            return []
        fact = {"fact": "waiting", "topology": case.name, "reason": waiting.reason}
        return self._tell("decision", f"{case.name}: {waiting.reason}", fact)

    def _plan(self, case: TopologyCase, wave: Wave) -> list[Instruction]:
        deployment = self.deployments[case.name]
        expected, generation = deployment.generation, deployment.generation + 1
        plan = CreatePlan(
            topology=case.name,
            expected=expected,
            generation=generation,
            wave=case.wave + 1,
            kind="recover" if wave.restore else "restore",
            rollback=wave.rollback,
            checkpoint=wave.checkpoint,
            assignment=dict(wave.assignment),
            restore=wave.restore,
            reason=wave.reason,
            explanation=wave.explanation,
        )
        case.failed -= set(wave.restore)
        case.restore, case.unrestored, case.forced = frozenset(wave.restore), set(), False
        case.generation, case.wave, case.checkpoint = generation, plan.wave, wave.checkpoint
        deployment.generation, deployment.assignment = generation, dict(wave.assignment)
        text = f"Plan {generation}, wave {plan.wave}: {wave.reason}"
        told = self._tell("decision", text, dict(wave.explanation))
        restored: list[Instruction] = [
            MarkPartitions(topology=case.name, state="restoring", partitions=frozenset(wave.restore))
        ]
        return [plan, *told, *restored, *self._transition(case, Phase.PLANNED, "planned")]

    def _ask_for_nodes(self) -> list[Instruction]:
        """One request for each lost node; another where the one before failed or its node was lost too."""
        instructions: list[Instruction] = []
        for request in self.requests.values():
            overdue = (
                request.state == "started"
                and request.started_at is not None
                and self.now - request.started_at > JOIN_LIMIT
            )
            unneeded = request.state == "pending" and request.lost_node in self.memory.returned
            if overdue or unneeded:
                request.state = "failed"
                reason = (
                    f"it did not register within {JOIN_LIMIT:.0f} s of its start"
                    if overdue
                    else f"not needed any more: {request.lost_node} came back"
                )
                instructions.append(GiveUpRequest(key=request.key, reason=reason))
                instructions += self._tell("step", f"Request {request.key} given up: {reason}.")
        asked: list[str] = []
        for node in sorted(self.memory.losses, key=natural_key):
            mine = [request for request in self.requests.values() if request.lost_node == node]
            good = sum(request.state != "failed" for request in mine)
            for attempt in range(len(mine) + 1, len(mine) + 1 + max(0, self.memory.losses[node] - good)):
                key = f"incident-{self.number}/{node}/{attempt}"
                self.requests[key] = Request(key=key, lost_node=node, attempt=attempt)
                instructions.append(AskForNode(key=key, lost_node=node, attempt=attempt))
                asked.append(node)
        if asked:
            instructions += self._tell(
                "step",
                f"Asked the provider for {wording.counted(len(asked), 'replacement node')}, "
                f"in place of {wording.listed(asked)}.",
            )
        return instructions

    def _ask_for_one_more(self, case: TopologyCase) -> list[Instruction]:
        """Everything asked for is here and does not suffice: a node on top of the replacements."""
        assignment = self.deployments[case.name].assignment
        homes = sorted({assignment[p] for p in case.failed if p in assignment}, key=natural_key)
        node = homes[0] if homes else "capacity"
        attempt = 1 + sum(request.lost_node == node for request in self.requests.values())
        key = f"incident-{self.number}/{node}/{attempt}"
        self.requests[key] = Request(key=key, lost_node=node, attempt=attempt)
        return [
            AskForNode(key=key, lost_node=node, attempt=attempt),
            *self._tell("step", f"Asked the provider for one node more, because {case.name} needs the room."),
        ]

    # ---- the state of the incident ---------------------------------------------------------------

    def _derived_state(self) -> State:
        """That of the least advanced case; without cases, the wait for spare capacity."""
        active = [case.phase for case in self.cases.values() if case.phase not in ENDED_PHASES]
        if active:
            return _STATE_OF_PHASE[min(active, key=list(Phase).index)]
        if not self.cases and any(
            request.state in ("pending", "started") and self.memory.losses[request.lost_node] > 0
            for request in self.requests.values()
        ):
            return State.ACQUIRING
        return State.CLOSED

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
