"""The incident state machine: events in, instructions out, no I/O (after the manner of dask.distributed).

States of a case and what moves it on:

    failed     -> planned     the method found nodes for all (blocking) or some of the failed partitions
    planned    -> published   the plan is in ZooKeeper
    published  -> replaying   the driver has applied a generation that is at least the plan's
    replaying  -> verifying   the driver has caught up and nothing is absent
    verifying  -> verified    a global checkpoint newer than the plan's is complete
    any        -> failed      further partitions were lost; the plan is superseded by a higher generation
    any        -> dropped     nothing is left to recover

Events are facts that may be repeated, late or out of order: a fact that says nothing new does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from controlplane.domain.planning import natural_key
from controlplane.domain.recovery import wording
from controlplane.domain.recovery.incident import (
    ENDED_PHASES,
    ENDED_STATES,
    PLAN_PHASES,
    AbortAsked,
    CheckpointCompleted,
    DrainAsked,
    DriverReported,
    Event,
    Instruction,
    Looked,
    MarkPartitions,
    NodeArrived,
    NodeReturned,
    NodesLost,
    PartitionsLost,
    Phase,
    PlanPublished,
    PlanRefused,
    RecoveryAsked,
    State,
    TopologyCase,
    TopologyWithdrawn,
)
from controlplane.domain.recovery.waves import Waves

APPLIED_STATES = frozenset({"replaying", "running", "degraded", "paused", "completed"})
CAUGHT_UP_STATES = frozenset({"running", "completed"})
TERMINAL_DRIVER_STATES = frozenset({"completed"})


class IncidentMachine(Waves):
    """One incident. Rebuilt from the database before each step, so its process may die at any moment.

    `deployments` holds every deployed topology, `nodes` every known node, `cases` those topologies that
    the incident concerns. `memory` is what the story remembers.
    """

    # ---- events ----------------------------------------------------------------------------------

    def handle_stimulus(self, *events: Event) -> list[Instruction]:
        """Take in what happened, in order; the instructions must be carried out in order, all or none."""
        instructions: list[Instruction] = []
        for event in events:
            if self.state in ENDED_STATES:
                break
            self.now = max(self.now, event.at)
            instructions += self._HANDLERS[type(event)](self, event)
            instructions += self._look_again()
        return instructions

    def _on_nodes_lost(self, event: NodesLost) -> list[Instruction]:
        new = [node for node in sorted(event.nodes, key=natural_key) if node not in self.memory.lost]
        if not new:
            return []
        affected = self._affected_by(frozenset(new))
        for node in new:
            if node in self.nodes:
                self.nodes[node].alive = self.nodes[node].usable = False
        fact = {
            "fact": "lost",
            "nodes": new,
            "failed": self._failed_fact(affected),
        }
        grown = bool(self.memory.lost or self.cases)
        instructions = self._tell("stimulus", wording.nodes_lost(new, affected, grown), fact)
        for node in new:
            instructions += self._tell("evidence", f"{node}: {event.nodes[node]}.")
        for name, partitions in affected.items():
            instructions += self._fail(name, partitions, f"lost {', '.join(new)}")
        return instructions

    def _on_partitions_lost(self, event: PartitionsLost) -> list[Instruction]:
        deployment = self.deployments.get(event.topology)
        if deployment is None or deployment.generation != event.generation:
            return []
        case = self.cases.get(event.topology)
        if case is not None and (case.phase in PLAN_PHASES or event.partitions <= case.failed):
            return []
        fact = {
            "fact": "lost",
            "nodes": [],
            "failed": self._failed_fact({event.topology: event.partitions}),
            # What does not start on a living node will not start there with the next plan either.
            "avoid": sorted({deployment.assignment.get(p, "") for p in event.partitions}),
        }
        text = wording.partitions_lost(event.topology, event.partitions)
        return [
            *self._tell("stimulus", text, fact),
            *self._tell("evidence", event.evidence),
            *self._fail(event.topology, event.partitions, "partitions absent on living nodes"),
        ]

    def _on_returned(self, event: NodeReturned) -> list[Instruction]:
        if event.node not in self.memory.lost:
            return []
        kept: dict[str, set[str]] = {}
        for name, case in self.cases.items():
            assignment = self.deployments[name].assignment if name in self.deployments else {}
            # What a superseded plan was to restore there never ran there.
            mine = {p for p in case.failed - case.unrestored if assignment.get(p) == event.node}
            if case.phase is Phase.FAILED and mine:
                kept[name] = mine
        fact = {
            "fact": "returned",
            "node": event.node,
            "kept": {name: sorted(partitions) for name, partitions in kept.items()},
        }
        instructions = self._tell("evidence", wording.node_returned(event.node, event.evidence, kept), fact)
        for name, partitions in kept.items():
            case = self.cases[name]
            case.failed -= partitions
            instructions.append(
                MarkPartitions(topology=name, state="running", partitions=frozenset(partitions))
            )
            if not case.failed and not case.forced:
                instructions += self._transition(case, Phase.DROPPED, "its nodes came back before any plan")
        return instructions

    def _on_arrived(self, event: NodeArrived) -> list[Instruction]:
        if event.node in self.memory.arrived:
            return []
        fact = {"fact": "arrived", "node": event.node}
        return self._tell("step", f"{event.node} has joined and has nothing to run yet.", fact)

    def _on_published(self, event: PlanPublished) -> list[Instruction]:
        case = self._case_of_plan(event.topology, event.generation, {Phase.PLANNED})
        if case is None:
            return []
        return self._transition(case, Phase.PUBLISHED, "the plan is in ZooKeeper")

    def _on_refused(self, event: PlanRefused) -> list[Instruction]:
        """Another plan got into ZooKeeper first: what ours was to restore is failed still."""
        case = self._case_of_plan(event.topology, event.generation, {Phase.PLANNED, Phase.PUBLISHED})
        deployment = self.deployments.get(event.topology)
        if case is None or deployment is None or event.in_force <= event.generation:
            return []
        deployment.generation = max(deployment.generation, event.in_force)
        why = f"ZooKeeper already holds a plan of generation {event.in_force}"
        return self._fail(event.topology, frozenset(), why)

    def _on_driver(self, event: DriverReported) -> list[Instruction]:
        case = self._case_of_plan(event.topology, None, PLAN_PHASES)
        if case is None or event.generation < case.generation or event.state not in APPLIED_STATES:
            return []
        instructions: list[Instruction] = []
        if case.phase is Phase.PLANNED:
            instructions += self._transition(case, Phase.PUBLISHED, "the driver already has the plan")
        if case.phase is Phase.PUBLISHED:
            instructions += self._transition(
                case, Phase.REPLAYING, wording.applied(event.generation, case.checkpoint, event.head)
            )
        caught_up = event.state in CAUGHT_UP_STATES and not event.absent
        if case.phase is Phase.REPLAYING and caught_up:
            instructions += self._transition(
                case, Phase.VERIFYING, f"caught up at epoch {event.committed} of {event.head}"
            )
        if case.phase is Phase.VERIFYING and event.state in TERMINAL_DRIVER_STATES:
            return [*instructions, *self._transition(case, Phase.VERIFIED, "the topology ran to its end")]
        newest = event.checkpoint if event.generation >= case.generation else 0
        return [*instructions, *self._verify(case, newest)]

    def _on_checkpoint(self, event: CheckpointCompleted) -> list[Instruction]:
        case = self._case_of_plan(event.topology, None, PLAN_PHASES)
        if event.topology in self.deployments:
            deployment = self.deployments[event.topology]
            deployment.latest = max(deployment.latest, event.checkpoint)
        if case is None or event.generation < case.generation:
            return []
        return self._verify(case, event.checkpoint)

    def _verify(self, case: TopologyCase, checkpoint: int) -> list[Instruction]:
        if case.phase is not Phase.VERIFYING or checkpoint <= case.checkpoint:
            return []
        return self._transition(
            case, Phase.VERIFIED, f"checkpoint {checkpoint} is complete on all partitions"
        )

    def _on_recovery_asked(self, event: RecoveryAsked) -> list[Instruction]:
        if event.topology not in self.deployments:
            return []
        case = self.cases.get(event.topology)
        if case is not None and case.phase in PLAN_PHASES:
            return self._tell(
                "stimulus",
                f"{event.actor} asked to recover {event.topology} now ({event.reason}); "
                f"plan {case.generation} is under way already.",
            )
        down = frozenset() if case is not None and case.failed else self._down(event.topology)
        forced = not down and (case is None or not case.failed)
        generation = self.deployments[event.topology].generation
        fact = {"fact": "asked", "topology": event.topology, "forced": forced, "generation": generation}
        text = wording.recovery_asked(event.topology, event.actor, event.reason, forced)
        instructions = self._tell("stimulus", text, fact)
        if forced:
            instructions += self._fail(event.topology, frozenset(), f"asked by {event.actor}")
            self.cases[event.topology].forced = True
        elif down:
            instructions += self._tell(
                "evidence",
                f"Down since before: {wording.listed(down)}.",
                {"fact": "lost", "nodes": [], "failed": self._failed_fact({event.topology: down})},
            )
            instructions += self._fail(event.topology, down, f"asked by {event.actor}")
        return instructions

    def _on_drain(self, event: DrainAsked) -> list[Instruction]:
        if event.node in self.memory.drained:
            return []
        node = self.nodes.get(event.node)
        if node is not None:
            node.usable = False
        affected = self._affected_by(frozenset({event.node}))
        fact = {
            "fact": "drained",
            "node": event.node,
            "failed": self._failed_fact(affected),
        }
        instructions = self._tell(
            "stimulus", wording.drain_asked(event.node, event.actor, event.reason, affected), fact
        )
        for name, partitions in affected.items():
            instructions += self._fail(name, partitions, f"{event.node} is being drained", down=False)
        return instructions

    def _on_abort(self, event: AbortAsked) -> list[Instruction]:
        instructions = self._tell("outcome", f"{event.actor} aborted the recovery: {event.reason}.")
        for case in self.cases.values():
            if case.phase not in ENDED_PHASES:
                instructions += self._transition(case, Phase.DROPPED, "the recovery was aborted")
        return [*instructions, *self._enter(State.ABORTED)]

    def _on_withdrawn(self, event: TopologyWithdrawn) -> list[Instruction]:
        case = self.cases.get(event.topology)
        self.deployments.pop(event.topology, None)
        if case is None or case.phase in ENDED_PHASES:
            return []
        return self._transition(case, Phase.DROPPED, event.reason)

    def _on_look(self, event: Looked) -> list[Instruction]:
        return []

    _HANDLERS: dict[type, Callable[..., list[Instruction]]] = {  # noqa: RUF012
        NodesLost: _on_nodes_lost,
        PartitionsLost: _on_partitions_lost,
        NodeReturned: _on_returned,
        NodeArrived: _on_arrived,
        PlanPublished: _on_published,
        PlanRefused: _on_refused,
        DriverReported: _on_driver,
        CheckpointCompleted: _on_checkpoint,
        RecoveryAsked: _on_recovery_asked,
        DrainAsked: _on_drain,
        AbortAsked: _on_abort,
        TopologyWithdrawn: _on_withdrawn,
        Looked: _on_look,
    }

    # ---- looking things up -----------------------------------------------------------------------

    def _affected_by(self, nodes: frozenset[str]) -> dict[str, frozenset[str]]:
        """Topology -> its partitions on any of these nodes, and only topologies that have some."""
        found = {
            name: frozenset(p for p, node in deployment.assignment.items() if node in nodes)
            for name, deployment in sorted(self.deployments.items())
        }
        return {name: partitions for name, partitions in found.items() if partitions}

    def _case_of_plan(
        self, topology: str, generation: int | None, phases: Collection[Phase]
    ) -> TopologyCase | None:
        """The case a message is about, if it is in one of these phases and about its present plan."""
        case = self.cases.get(topology)
        if case is None or case.phase not in phases or generation not in (None, case.generation):
            return None
        return case

    def validate_state(self) -> None:
        """Invariants between events; raises AssertionError naming what is wrong."""
        for name, case in self.cases.items():
            story = "\n".join(map(str, case.story))
            if case.phase in PLAN_PHASES and case.failed and self.method.name == "blocking":
                raise AssertionError(f"{name}: a blocking plan leaves {sorted(case.failed)} failed\n{story}")
            deployment = self.deployments.get(name)
            if deployment is not None and case.generation > deployment.generation:
                raise AssertionError(
                    f"{name}: plan {case.generation} is ahead of generation {deployment.generation}\n{story}"
                )
        if self.state is State.CLOSED:
            unfinished = [name for name, case in self.cases.items() if case.phase not in ENDED_PHASES]
            if unfinished:
                raise AssertionError(f"incident {self.number} is closed, but {unfinished} are unfinished")
        keys = [(request.lost_node, request.attempt) for request in self.requests.values()]
        if len(keys) != len(set(keys)):
            raise AssertionError(f"incident {self.number} asked twice for the same replacement: {keys}")
