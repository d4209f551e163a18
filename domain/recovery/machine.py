"""The incident state machine: events in, instructions out, no I/O (after the manner of dask.distributed).

This module holds all that one incident knows and every way in which that changes: an event is looked up in
`_HANDLERS`, a topology goes from one phase to another by a function looked up in `_TRANSITIONS`, and whatever
happened, `_look_again` then works out what follows. What to plan, to propose and to ask of the provider is
worked out by functions of `decisions`, `blocking`, `incremental`, `proposals` and `replacements`; they change
nothing. docs/recovery.md defines each state.

Phases of a topology, and what moves it on:

    failed     -> planned     the method found nodes for all or some of the failed partitions
    planned    -> published   the plan is in ZooKeeper
    published  -> replaying   the driver has applied a generation that is at least the plan's
    replaying  -> planned     partitions are still failed, and a further wave restores at least one query more
    replaying  -> verifying   nothing is failed, and the driver has nothing absent and nothing behind
    verifying  -> replaying   further partitions were lost; only these are restored
    verifying  -> verified    a global checkpoint newer than the plan's is complete
    planned, published -> failed   partitions were lost before the plan was known to be applied, an operator
                              asked to plan anew, or the driver cannot apply it, because its checkpoint is
                              gone; what it was to restore is failed again
    verified, dropped -> failed    further partitions were lost
    any        -> dropped     nothing is left to recover

Events may be repeated, late or out of order: one that says nothing new does nothing. A machine can be built
anew from the database at any moment: what it must remember beyond plans, nodes and requests is a fact of its
story.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, Literal

from domain.planning import DelayDistribution, LookAhead, natural_key
from domain.recovery import acting, decisions, events, facts, proposals, replacements, wording
from domain.recovery.blocking import Blocking
from domain.recovery.costs import costs_fix, costs_raised
from domain.recovery.incident import (
    APPLIED_STATES,
    CAUGHT_UP_STATES,
    ENDED_PHASES,
    ENDED_STATES,
    LIVE_STATES,
    PLAN_PHASES,
    TERMINAL_DRIVER_STATES,
    UNAPPLIED_PHASES,
    Deployment,
    NodeView,
    Phase,
    Request,
    State,
    TopologyCase,
)
from domain.recovery.incremental import Incremental
from domain.recovery.instructions import (
    AskForCheckpoint,
    AskForNode,
    EnterState,
    EntryKind,
    GiveUpRequest,
    Instruction,
    Involve,
    KeepCosts,
    MarkParked,
    MarkPartitions,
    MarkPlan,
    Tell,
)
from domain.recovery.invariants import problems_of
from domain.recovery.liveness import ImpossibleTransitionError
from domain.recovery.making_room import is_awaited
from domain.recovery.memory import Memory
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.moving import Move, moves_words, possible_moves
from domain.recovery.overload import may_return_elsewhere
from domain.recovery.policy import INCREMENTAL, MOVE
from domain.recovery.relief import limits_of, may_move_first, queries_with_room, relief_for
from domain.recovery.reserve import replaying
from domain.recovery.spreading import not_begun
from domain.topology import Topology

_OF_ONE = (
    events.DriverReported,
    events.CheckpointCompleted,
    events.PlanPublished,
    events.PlanRefused,
)
"""What happens to one topology and changes nothing of the others: these are not looked at again for it."""

Instructions = list[Instruction]
Story = list[tuple[float, str, str]]


class IncidentMachine:
    """One incident: its state, and what changes it."""

    def __init__(
        self,
        *,
        number: int,
        deployments: dict[str, Deployment],
        nodes: dict[str, NodeView],
        state: State = State.OPEN,
        cases: dict[str, TopologyCase] | None = None,
        requests: Iterable[Request] = (),
        memory: Memory | None = None,
        max_utilisation: float = 0.8,
        replay_reserve: float = 1.0,
        opened_at: float | None = None,
        may_plan: bool = True,
        delay: DelayDistribution | None = None,
        incremental: Incremental | None = None,
        story: Iterable[tuple[float, str, str]] = (),
        queries_awaited: Collection[str] = (),
    ) -> None:
        self.number = number
        # Every deployed topology, by name, whether the incident concerns it or not.
        self.deployments = deployments
        # Every known node, by name.
        self.nodes = nodes
        self.state = state
        # The topologies that the incident concerns, by name.
        self.cases = cases or {}
        self.requests = {request.key: request for request in requests}
        self.memory = memory or Memory()
        # Share of a node's capacity that may be planned.
        self.max_utilisation = max_utilisation
        self.replay_reserve = replay_reserve
        self.opened_at = opened_at
        # Whether everything observed has been fed, the newest checkpoints above all: plans need these.
        self.may_plan = may_plan
        # How many of the queries that failed are not available yet.
        self.queries_awaited = frozenset(queries_awaited)
        # How long the provider takes, for planners that look ahead.
        self.delay = delay
        self.blocking = Blocking()
        self.incremental = incremental or Incremental()
        self.moving = Move()
        # Whether all topologies have been looked at, and what has costs: graphs by the name of the topology.
        self._looked = False
        self._costed: dict[str, Topology] = {}
        # The latest moment of any event. Time only advances, whatever the order of events.
        self.now = float("-inf")
        for refused in self.memory.refused.values():
            self._note_restorable(refused)
        # (moment, what, text) of every sentence and transition: what an error message shows.
        self.story: Story = [*story]

    def handle_stimulus(self, *stimuli: events.Event) -> Instructions:
        """Take in what happened, in order; the instructions must be carried out in order, all or none."""
        instructions: Instructions = []
        for position, event in enumerate(stimuli, start=1):
            if self.state in ENDED_STATES:
                break
            self.now = max(self.now, event.at)
            instructions += self._HANDLERS[type(event)](self, event)
            # No plan before all of it is known: replicas may act for what it would restore.
            last = position == len(stimuli)
            only = event.topology if isinstance(event, _OF_ONE) and self._looked and not last else None
            instructions += self._look_again(may_plan=self.may_plan and last, only=only)
            self._looked = True
        return instructions

    def open_proposals(self) -> dict[str, facts.Proposed]:
        """Topology -> the proposal that waits for a confirmation; none once the incident has ended."""
        if self.state in ENDED_STATES:
            return {}
        generations = {name: self._generation(name) for name in self.cases}
        return proposals.unconfirmed(self.cases, generations, self.memory)

    def restore_refusal(self, topology: str) -> str:
        """Why a topology cannot be put back to a checkpoint now; "" where it can."""
        case = self.cases.get(topology)
        if case is not None and case.under_way:
            return wording.restore_overtaken(topology, case.generation, self.number)
        down = self._still_failed(topology)
        if topology in self.deployments:
            down |= self._down(topology)
            if down and down <= self._held(topology):
                return f"queries of topology {topology!r} are parked: unpark them first"
        return f"partitions of topology {topology!r} are down: recover it first" if down else ""

    # ---- events: nodes and partitions --------------------------------------------------------------

    def _on_nodes_lost(self, event: events.NodesLost) -> Instructions:
        new = [node for node in sorted(event.nodes, key=natural_key) if node not in self.memory.lost]
        if not new:
            return []
        affected = self._affected_by(frozenset(new))
        for node in new:
            if node in self.nodes:
                view = self.nodes[node]
                view.alive = view.usable = view.standby = False
        grown = bool(self.memory.lost or self.cases)
        text = wording.nodes_lost(new, affected, grown)
        instructions = self._tell("stimulus", text, self._lost(new, affected))
        for node in new:
            instructions += self._tell("evidence", f"{node}: {event.nodes[node]}.")
        for name, partitions in affected.items():
            instructions += self._fail(name, partitions, f"lost {', '.join(new)}")
        return instructions

    def _on_partitions_lost(self, event: events.PartitionsLost) -> Instructions:
        deployment = self.deployments.get(event.topology)
        if deployment is None or deployment.generation != event.generation:
            return []
        case = self.cases.get(event.topology)
        if case is not None and case.unapplied:
            return []
        known = case.failed if case is not None else deployment.unassigned
        new = event.partitions & deployment.assignment.keys() - known
        if not new:
            return []
        # What does not start on a living node will hardly start there with the next plan.
        avoid = sorted({deployment.assignment[p] for p in new}, key=natural_key)
        fact = self._lost((), {event.topology: new}, avoid=avoid)
        told = self._tell("stimulus", wording.partitions_lost(event.topology, new), fact)
        avoided = {node: self.memory.avoided[node].until - self.now for node in avoid}
        return [
            *told,
            *self._tell("evidence", event.evidence),
            *self._tell("decision", wording.avoided(avoided)),
            *self._fail(event.topology, new, "partitions absent on living nodes"),
        ]

    def _on_returned(self, event: events.NodeReturned) -> Instructions:
        if event.node not in self.memory.lost:
            return self._used_again(event.node)
        kept: dict[str, set[str]] = {}
        for name, case in self.cases.items():
            assignment = self.deployments[name].assignment if name in self.deployments else {}
            # What a discarded plan was to restore there never ran there.
            mine = {p for p in case.failed - case.unrestored if assignment.get(p) == event.node}
            if case.awaits_wave and mine:
                kept[name] = mine
        fact = facts.Returned(
            node=event.node, kept={name: tuple(sorted(partitions)) for name, partitions in kept.items()}
        )
        instructions = self._tell("evidence", wording.node_returned(event.node, event.evidence, kept), fact)
        for name, partitions in kept.items():
            self.cases[name].failed -= partitions
            instructions.append(
                MarkPartitions(topology=name, state="running", partitions=frozenset(partitions))
            )
            instructions += self._drop_if_done(name, "its nodes came back before any plan")
        for request in self.requests.values():
            if request.lost_node == event.node and request.state == "pending":
                instructions += self._give_up(request, f"not needed any more: {event.node} came back")
        return instructions

    def _on_arrived(self, event: events.NodeArrived) -> Instructions:
        if event.node in self.memory.drained:
            return self._used_again(event.node)
        if event.node in self.memory.arrived:
            return []
        text = f"{event.node} has joined and has nothing to run yet."
        return self._tell("step", text, facts.Arrived(event.node))

    def _used_again(self, node: str) -> Instructions:
        """It was drained, and is not any more: an operator has activated it, or it had left and is back."""
        view = self.nodes.get(node)
        if node not in self.memory.drained or view is None:
            return []
        return self._stays(node) if view.usable or view.standby else []

    def _stays(self, node: str) -> Instructions:
        """A drained node may take partitions again: what runs there need not move."""
        kept: dict[str, set[str]] = {}
        # What was down there when it was drained is told apart from what runs only by these.
        if not self.memory.losses[node] and node not in self.memory.avoided:
            for name, case in self.cases.items():
                deployment = self.deployments.get(name)
                if deployment is not None:
                    mine = {p for p in case.failed if deployment.assignment.get(p) == node}
                    if mine := mine - case.unrestored - self._held(name):
                        kept[name] = mine
        fact = facts.Arrived(node, {name: tuple(sorted(partitions)) for name, partitions in kept.items()})
        instructions = self._tell("step", wording.activated(node, kept), fact)
        for name, partitions in kept.items():
            self.cases[name].failed -= partitions
            instructions += self._drop_if_done(name, "what was to move may stay where it is")
        return instructions

    def _on_drain(self, event: events.DrainAsked) -> Instructions:
        if event.node in self.memory.drained:
            return []
        node = self.nodes.get(event.node)
        if node is not None:
            node.usable = node.standby = False
        affected = self._affected_by(frozenset({event.node}))
        fact = facts.Drained(node=event.node, failed=self._failed(affected))
        text = wording.drain_asked(event.node, event.actor, event.reason, affected)
        instructions = self._tell("stimulus", text, fact)
        for name, partitions in affected.items():
            instructions += self._fail(name, partitions, f"{event.node} is being drained", down=False)
        return instructions

    def _on_rebalance(self, event: events.RebalanceAsked) -> Instructions:
        if event.topology not in self.deployments:
            return []
        case = self.cases.get(event.topology)
        if case is not None and not case.may_move:
            return self._tell("stimulus", wording.rebalance_refused(event.topology, event.actor))
        assignment = self.deployments[event.topology].assignment
        moves = {p: node for p, node in event.moves.items() if p in assignment}
        what = moves_words(event.topology, assignment, moves)
        text = wording.rebalance_asked(event.topology, event.actor, event.reason, what)
        return self._rebalance(event.topology, moves, text, "partitions are to be rebalanced")

    def _rebalance(
        self, name: str, moves: dict[str, str], text: str, why: str, *, light: bool = False
    ) -> Instructions:
        """light: what moves has little state, so it need not wait until what is down is back."""
        instructions = self._tell("stimulus", text)
        instructions += self._fail(name, frozenset(), why, down=False)
        case = self.cases[name]
        if not light and not may_move_first(case, self._situation()):
            return [*instructions, *self._tell("step", f"{name}: nothing moves before what is down is back.")]
        case.moves = dict(moves)
        fact = facts.Rebalancing(name, self._generation(name), case.moves)
        return [*instructions, *self._tell("evidence", f"To move: {wording.listed(moves)}.", fact)]

    def _on_park(self, event: events.ParkAsked) -> Instructions:
        before = self._parked(event.topology)
        deployment = self.deployments.get(event.topology)
        limits = {} if event.actor else self.memory.limits.get(event.topology, {})
        by_policy = self.memory.parked_by_policy.get(event.topology, frozenset())
        if deployment is not None and event.queries == before and event.named & by_policy:
            return self._keep_parked(event, by_policy & event.named)
        if deployment is None or (event.queries == before and event.limits == limits):
            return []
        queries = event.queries
        held = deployment.topology.exclusive_partitions(queries)
        if queries and held.isdisjoint(self._still_failed(event.topology) | deployment.assignment.keys()):
            if queries - before:
                return self._tell("stimulus", wording.nothing_to_park(event.topology, queries))
            # Others need all that runs for these, so what the policy has parked of them returns as well.
            queries -= by_policy
        stopped, back = queries - before, before - queries
        text = wording.park_asked(event.topology, event.actor, event.reason, stopped, back)
        return self._park(
            event.topology, queries, text, actor=event.actor, named=event.named, limits=event.limits
        )

    def _keep_parked(self, event: events.ParkAsked, queries: frozenset[str]) -> Instructions:
        """An operator wants parked what the policy has parked already."""
        text = wording.stays_parked(event.topology, event.actor, event.reason, queries)
        limits = self.memory.limits.get(event.topology, {})
        return self._park(
            event.topology, event.queries, text, actor=event.actor, named=queries, limits=limits
        )

    def _park(
        self,
        name: str,
        queries: frozenset[str],
        text: str,
        *,
        actor: str = "",
        named: Collection[str] = (),
        limits: Mapping[str, float],
    ) -> Instructions:
        """From now on these queries of a topology are parked. actor: empty where the policy asks. named,
        limits: see `ParkAsked`."""
        by_policy = self.memory.parked_by_policy.get(name, frozenset()) & queries.difference(named)
        if not actor:
            by_policy |= queries - self._parked(name)
        fact = facts.Parked(
            name,
            tuple(sorted(queries, key=natural_key)),
            tuple(sorted(by_policy, key=natural_key)),
            dict(limits),
        )
        instructions = self._tell("stimulus", text, fact)
        return [*instructions, MarkParked(topology=name, queries=queries), *self._stop_parked(name, queries)]

    def _return_elsewhere(self) -> Instructions:
        """What was parked since its nodes had too much to do may return to other nodes that have room, once
        nothing is to move there any more."""
        instructions: Instructions = []
        for name in sorted(self.memory.limits.keys() & self.deployments.keys() & self.cases.keys()):
            if self.cases[name].moves:
                continue
            if not may_return_elsewhere(name, self.cases[name], self.memory, self.now):
                continue
            # It may have been deployed anew, without some of them.
            there = self.deployments[name].topology.query_partitions.keys()
            mine = self.memory.parked_by_policy.get(name, frozenset()) & there
            back = queries_with_room(name, self._situation(), mine) if mine else frozenset()
            if back:
                text = wording.room_elsewhere(name, back)
                limits = self.memory.limits[name]
                instructions += self._park(name, self._parked(name) - back, text, limits=limits)
        return instructions

    # ---- events: plans and drivers -----------------------------------------------------------------

    def _on_published(self, event: events.PlanPublished) -> Instructions:
        case = self._case_of_plan(event.topology, event.generation, {Phase.PLANNED})
        if case is None:
            return []
        return self._transition(case, Phase.PUBLISHED, "the plan is in ZooKeeper")

    def _on_refused(self, event: events.PlanRefused) -> Instructions:
        """Another plan got into ZooKeeper first: what ours was to restore is failed still."""
        case = self._case_of_plan(event.topology, event.generation, UNAPPLIED_PHASES)
        deployment = self.deployments.get(event.topology)
        if case is None or deployment is None or event.in_force <= event.generation:
            return []
        deployment.generation = max(deployment.generation, event.in_force)
        why = f"ZooKeeper already holds a plan of generation {event.in_force}"
        return self._fail(event.topology, frozenset(), why)

    def _on_driver(self, event: events.DriverReported) -> Instructions:
        return [*self._taken_over(event), *self._tentative(event), *self._reported(event)]

    def _tentative(self, event: events.DriverReported) -> Instructions:
        """Queries go on without a part of their input; it changes nothing of the recovery."""
        known = self.memory.tentative.get(event.topology, set())
        new = {query: share for query, share in event.tentative.items() if query not in known}
        if event.topology not in self.cases or not new:
            return []
        fact = facts.Tentative(topology=event.topology, queries=tuple(sorted(new, key=natural_key)))
        return self._tell("evidence", wording.tentative(event.topology, new), fact)

    def _taken_over(self, event: events.DriverReported) -> Instructions:
        """Replicas act for what had failed: it is where they are, and no plan puts it back."""
        case, deployment = self.cases.get(event.topology), self.deployments.get(event.topology)
        if case is None or deployment is None:
            return []
        held = self._held(case.name)
        acts = acting.in_force(event, deployment, plan=case.generation)
        acts = {
            p: node for p, node in acts.items() if p not in held and not self._leaves(deployment, p, node)
        }
        taken = acting.taken_over(case, acts, self.nodes)
        case.standing = acting.standing(case, event.standing, self.nodes) - taken.keys()
        if not taken:
            return []
        case.failed -= taken.keys()
        case.unrestored -= taken.keys()
        deployment.assignment.update(taken)
        deployment.taken.update(taken)
        fact = facts.TakenOver(topology=case.name, acting=taken)
        instructions = self._tell("evidence", wording.taken_over(case.name, taken), fact)
        instructions.append(MarkPartitions(topology=case.name, state="running", partitions=frozenset(taken)))
        return [*instructions, *self._drop_if_done(case.name, "replicas have taken over what was lost")]

    def _leaves(self, deployment: Deployment, partition: str, node: str) -> bool:
        """Whether it is known to run on this node, which is being drained."""
        return node in self.memory.drained and deployment.assignment.get(partition) == node

    def _reported(self, event: events.DriverReported) -> Instructions:
        case = self._case_of_plan(event.topology, None, PLAN_PHASES)
        if case is not None and event.refused == case.generation:
            return self._refused_by_driver(case, event)
        if case is None or event.generation < case.generation or event.state not in APPLIED_STATES:
            return []
        instructions: Instructions = []
        if case.phase is Phase.PLANNED:
            instructions += self._transition(case, Phase.PUBLISHED, "the driver already has the plan")
        if case.phase is Phase.PUBLISHED:
            why = (
                wording.moved(event.generation)
                if case.method == MOVE
                else wording.applied(event.generation, case.checkpoint, event.head)
            )
            instructions += self._transition(case, Phase.REPLAYING, why)
        case.absent, case.behind = event.absent, event.behind
        case.load, case.head = event.load, event.head
        case.catch_up, case.not_gaining = event.catch_up, event.not_gaining
        instructions += self._catch_up(case, event)
        everything = not (event.absent or event.behind or case.failed or case.moves or case.forced)
        if case.phase is Phase.REPLAYING and everything and event.state in CAUGHT_UP_STATES:
            instructions += self._transition(
                case, Phase.VERIFYING, f"caught up at epoch {event.committed} of {event.head}"
            )
            if self._bounded(case):
                why = "its guarantee is bounded, so that all of it goes on in the present"
                instructions += self._transition(case, Phase.VERIFIED, why)
        if case.phase is Phase.VERIFYING and event.state in TERMINAL_DRIVER_STATES:
            return [*instructions, *self._transition(case, Phase.VERIFIED, "the topology has completed")]
        return [*instructions, *self._verify(case, event.checkpoint)]

    def _refused_by_driver(self, case: TopologyCase, event: events.DriverReported) -> Instructions:
        """The checkpoint of our plan is gone: plan again from one that is kept. Without any, the plan stays,
        and the story says once what an operator can do."""
        told = self.memory.refused.get(case.name)
        again = told is not None and told.generation == case.generation
        if not case.unapplied or (again and not event.restorable):
            return []
        fact = facts.Refused(
            topology=case.name,
            generation=case.generation,
            checkpoint=case.checkpoint,
            restorable=tuple(sorted(event.restorable)),
        )
        instructions = self._tell("evidence", wording.refused_by_driver(fact), fact)
        if not event.restorable:
            return instructions
        self._note_restorable(fact)
        why = f"checkpoint {case.checkpoint}, which it starts from, is not kept any more"
        return [*instructions, *self._fail(case.name, frozenset(), why)]

    def _note_restorable(self, refused: facts.Refused) -> None:
        """The next plan does not start from a checkpoint that is gone. What a driver said of an earlier
        deployment does not count."""
        deployment = self.deployments.get(refused.topology)
        if deployment is not None and refused.generation > deployment.before:
            deployment.latest = max([deployment.latest, *refused.restorable])
            deployment.stored -= {refused.checkpoint}

    def _catch_up(self, case: TopologyCase, event: events.DriverReported) -> Instructions:
        """Whether all that the last wave put back works live now; told once per wave."""
        if case.phase is not Phase.REPLAYING or self.memory.caught_up.get(case.name) == case.generation:
            return []
        wave = self._of_wave(case)
        if event.state not in LIVE_STATES or not wave or wave & (event.absent | event.behind):
            return []
        case.caught_up_at = self.now
        text = wording.wave_caught_up(case.name, case.wave, wave, len(case.failed))
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="caught_up"),
            MarkPartitions(topology=case.name, state="running", partitions=wave),
            *self._tell("step", text, facts.CaughtUp(case.name, case.generation)),
        ]

    def _on_checkpoint(self, event: events.CheckpointCompleted) -> Instructions:
        case = self._case_of_plan(event.topology, None, PLAN_PHASES)
        if event.topology in self.deployments:
            deployment = self.deployments[event.topology]
            deployment.latest = max(deployment.latest, event.checkpoint)
        if case is None or event.generation < case.generation:
            return []
        return self._verify(case, event.checkpoint)

    def _verify(self, case: TopologyCase, checkpoint: int) -> Instructions:
        if case.phase is not Phase.VERIFYING or checkpoint <= case.checkpoint:
            return []
        return self._transition(
            case, Phase.VERIFIED, f"checkpoint {checkpoint} is complete on all partitions"
        )

    def _bounded(self, case: TopologyCase) -> bool:
        """Whether no checkpoint of it is ever complete."""
        deployment = self.deployments.get(case.name)
        return deployment is not None and deployment.topology.spec.bounded

    def _on_withdrawn(self, event: events.TopologyWithdrawn) -> Instructions:
        case = self.cases.get(event.topology)
        instructions: Instructions = []
        if case is not None and case.phase not in ENDED_PHASES:
            instructions = self._transition(case, Phase.DROPPED, event.reason)
        self.deployments.pop(event.topology, None)
        return instructions

    def _case_of_plan(
        self, topology: str, generation: int | None, phases: Collection[Phase]
    ) -> TopologyCase | None:
        """The case a message is about, if it is in one of these phases and about its present plan."""
        case = self.cases.get(topology)
        if case is None or case.phase not in phases or generation not in (None, case.generation):
            return None
        return case

    # ---- events: what operators ask for; asking twice does it once ---------------------------------

    def _on_recovery_asked(self, event: events.RecoveryAsked) -> Instructions:
        if event.topology not in self.deployments:
            return []
        case = self.cases.get(event.topology)
        if case is not None and case.under_way:
            return self._tell(
                "stimulus",
                f"{event.actor} asked to recover {event.topology} now ({event.reason}); "
                f"plan {case.generation} is under way already.",
            )
        down = frozenset() if case is not None and case.failed else self._down(event.topology)
        forced = not down and (case is None or not case.failed)
        if event.checkpoint is not None and not forced:
            text = wording.restore_refused(event.topology, event.actor, event.checkpoint)
            return self._tell("stimulus", text)
        fact = facts.RecoveryRequested(
            topology=event.topology,
            generation=self.deployments[event.topology].generation,
            forced=forced,
            checkpoint=event.checkpoint,
        )
        text = wording.recovery_asked(event.topology, event.actor, event.reason, forced, event.checkpoint)
        instructions = self._tell("stimulus", text, fact)
        why = f"asked by {event.actor}"
        if forced:
            instructions += self._fail(event.topology, frozenset(), why)
            self.cases[event.topology].forced = True
            self.cases[event.topology].origin = event.checkpoint
        elif down:
            text = f"Down since before: {wording.listed(down)}."
            instructions += self._tell("evidence", text, self._lost((), {event.topology: down}))
            instructions += self._fail(event.topology, down, why)
        return instructions

    def _on_approved(self, event: events.ApproveAsked) -> Instructions:
        if event.proposal in self.memory.approved:
            return []
        if event.proposal not in {proposed.proposal for proposed in self.open_proposals().values()}:
            return self._tell(
                "stimulus",
                f"{event.actor} confirmed proposal {event.proposal} ({event.reason}), but the situation has "
                "changed since: it is not carried out.",
            )
        text = f"{event.actor} confirmed proposal {event.proposal}: {event.reason}."
        return self._tell("stimulus", text, facts.Approved(event.proposal, event.actor, event.reason))

    def _on_paused(self, event: events.PauseAsked) -> Instructions:
        if self.memory.paused:
            return []
        text = (
            f"{event.actor} paused the recovery: {event.reason}. What is under way goes on; nothing new is "
            "planned and no node is asked for until it is resumed."
        )
        return self._tell("stimulus", text, facts.Paused(event.actor, event.reason))

    def _on_resumed(self, event: events.ResumeAsked) -> Instructions:
        if not self.memory.paused:
            return []
        text = f"{event.actor} resumed the recovery: {event.reason}."
        return self._tell("stimulus", text, facts.Resumed(event.actor, event.reason))

    def _on_replan(self, event: events.ReplanAsked) -> Instructions:
        waiting = sorted(name for name, case in self.cases.items() if case.awaits_wave)
        fact = facts.Replanned(
            actor=event.actor,
            reason=event.reason,
            asked={name: self._generation(name) for name in waiting},
        )
        text = f"{event.actor} asked to replan with the present nodes: {event.reason}."
        instructions = self._tell("stimulus", text, fact)
        for case in self.cases.values():
            if case.unapplied:
                instructions += self._transition(case, Phase.FAILED, f"{event.actor} asked to replan")
        return instructions

    def _on_abort(self, event: events.AbortAsked) -> Instructions:
        instructions = self._tell("outcome", f"{event.actor} aborted the recovery: {event.reason}.")
        for case in self.cases.values():
            if case.phase not in ENDED_PHASES:
                instructions += self._transition(case, Phase.DROPPED, "the recovery was aborted")
        return [*instructions, *self._enter(State.ABORTED)]

    def _on_accept(self, event: events.AcceptAsked) -> Instructions:
        if self.state is not State.CATCHING_UP:
            return []
        fact = facts.Accepted(event.actor, event.reason, len(self.queries_awaited))
        text = wording.accepted(event.actor, event.reason, len(self.queries_awaited))
        self.queries_awaited = frozenset()
        return self._tell("outcome", text, fact)

    def _on_awaited(self, event: events.QueriesAwaited) -> Instructions:
        self.queries_awaited = event.queries
        return []

    def _on_look(self, event: events.Looked) -> Instructions:
        if self.memory.paused or not self.may_plan:
            return []
        instructions = self._keep_costs()
        instructions += [one for _, case in sorted(self.cases.items()) for one in self._relieve(case)]
        return [*instructions, *self._return_elsewhere()]

    _HANDLERS: ClassVar[dict[type, Callable[..., Instructions]]] = {
        events.NodesLost: _on_nodes_lost,
        events.PartitionsLost: _on_partitions_lost,
        events.NodeReturned: _on_returned,
        events.NodeArrived: _on_arrived,
        events.DrainAsked: _on_drain,
        events.RebalanceAsked: _on_rebalance,
        events.ParkAsked: _on_park,
        events.PlanPublished: _on_published,
        events.PlanRefused: _on_refused,
        events.DriverReported: _on_driver,
        events.CheckpointCompleted: _on_checkpoint,
        events.TopologyWithdrawn: _on_withdrawn,
        events.RecoveryAsked: _on_recovery_asked,
        events.ApproveAsked: _on_approved,
        events.PauseAsked: _on_paused,
        events.ResumeAsked: _on_resumed,
        events.ReplanAsked: _on_replan,
        events.AbortAsked: _on_abort,
        events.AcceptAsked: _on_accept,
        events.QueriesAwaited: _on_awaited,
        events.Looked: _on_look,
    }

    # ---- transitions of a topology -----------------------------------------------------------------

    def _transition(self, case: TopologyCase, finish: Phase, why: str) -> Instructions:
        action = self._TRANSITIONS.get((case.phase, finish))
        if action is None:
            subject = f"{case.name} in incident {self.number}"
            raise ImpossibleTransitionError(subject, case.phase, finish, self.story)
        start, case.phase = case.phase, finish
        self.story.append((self.now, f"{case.name}: {start} -> {finish}", why))
        return action(self, case, why)

    def _to_failed(self, case: TopologyCase, why: str) -> Instructions:
        """A plan that is not known to be applied is discarded. What it was to restore, and a rollback it
        carried, are left to the next one: the driver may have applied it or not."""
        case.failed |= case.restore
        case.unrestored |= case.restore
        case.forced = case.forced or not case.restore
        case.rollback_pending = case.rollback_pending or case.rollback
        fact = facts.Unrestored(
            topology=case.name,
            generation=self._generation(case.name),
            partitions=tuple(sorted(case.restore)),
            forced=case.forced,
            rollback_pending=case.rollback_pending,
        )
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="superseded", reason=why),
            *self._tell("step", f"Plan {case.generation} of {case.name} no longer fits: {why}.", fact),
        ]

    def _failed_again(self, case: TopologyCase, why: str) -> Instructions:
        return []

    def _to_planned(self, case: TopologyCase, why: str) -> Instructions:
        return []

    def _back_to_replaying(self, case: TopologyCase, why: str) -> Instructions:
        return self._tell("step", f"{case.name}: no checkpoint is awaited any more, {why}.")

    def _to_published(self, case: TopologyCase, why: str) -> Instructions:
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="published"),
            *self._tell("step", f"Plan {case.generation} of {case.name} is in force: {why}."),
        ]

    def _to_replaying(self, case: TopologyCase, why: str) -> Instructions:
        case.applied, case.rollback_pending, case.origin = True, False, None
        case.applied_at = self.now
        state: Literal["running", "replaying"] = "running" if case.method == MOVE else "replaying"
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="applied"),
            MarkPartitions(topology=case.name, state=state, partitions=self._of_wave(case)),
            *self._tell("step", f"{case.name}: {why}.", facts.PlanApplied(case.name, case.generation)),
        ]

    def _to_verifying(self, case: TopologyCase, why: str) -> Instructions:
        left = "nodes that were left" if case.method == MOVE else "lost nodes"
        text = (
            f"{case.name}: {why}. The next complete checkpoint will prove that nothing depends on the "
            f"{left} any more."
        )
        asked: Instructions = [AskForCheckpoint(topology=case.name)]
        if self._bounded(case):
            text, asked = f"{case.name}: {why}. States of keys come back when their first rows arrive.", []
        return [
            MarkPartitions(topology=case.name, state="running"),
            *asked,
            *self._tell("step", text, facts.Verifying(case.name, case.generation)),
        ]

    def _to_verified(self, case: TopologyCase, why: str) -> Instructions:
        return [
            MarkPlan(topology=case.name, generation=case.generation, state="verified"),
            *self._tell(
                "outcome", f"{case.name} {'has moved' if case.method == MOVE else 'is recovered'}: {why}."
            ),
        ]

    def _to_dropped(self, case: TopologyCase, why: str) -> Instructions:
        # Which it may be although partitions are down: an operator has aborted, or undeployed it.
        text = f"Nothing more is recovered of {case.name}: {why}."
        case.failed, case.unrestored, case.moves = set(), set(), {}
        case.forced = case.rollback_pending = False
        case.origin = None
        fact = facts.Dropped(case.name, self._generation(case.name))
        # Only a plan of this incident that is still current is affected; marking checks its state.
        mark = MarkPlan(topology=case.name, generation=case.generation, state="superseded", reason=why)
        unparked = MarkParked(topology=case.name, queries=frozenset())
        marks: Instructions = [mark] if case.wave else []
        marks += [unparked] if case.name in self.memory.parked else []
        return [*marks, *self._tell("outcome", text, fact)]

    _TRANSITIONS: ClassVar[dict[tuple[Phase, Phase], Callable[..., Instructions]]] = {
        (Phase.FAILED, Phase.PLANNED): _to_planned,
        (Phase.REPLAYING, Phase.PLANNED): _to_planned,
        (Phase.PLANNED, Phase.PUBLISHED): _to_published,
        (Phase.PUBLISHED, Phase.REPLAYING): _to_replaying,
        (Phase.REPLAYING, Phase.VERIFYING): _to_verifying,
        (Phase.VERIFYING, Phase.VERIFIED): _to_verified,
        (Phase.VERIFYING, Phase.REPLAYING): _back_to_replaying,
        (Phase.PLANNED, Phase.FAILED): _to_failed,
        (Phase.PUBLISHED, Phase.FAILED): _to_failed,
        (Phase.VERIFIED, Phase.FAILED): _failed_again,
        (Phase.DROPPED, Phase.FAILED): _failed_again,
        (Phase.FAILED, Phase.DROPPED): _to_dropped,
        (Phase.PLANNED, Phase.DROPPED): _to_dropped,
        (Phase.PUBLISHED, Phase.DROPPED): _to_dropped,
        (Phase.REPLAYING, Phase.DROPPED): _to_dropped,
        (Phase.VERIFYING, Phase.DROPPED): _to_dropped,
    }

    def _fail(self, name: str, partitions: Collection[str], why: str, *, down: bool = True) -> Instructions:
        """Add failed partitions to the topology's case, which is opened if there is none. The caller has told
        the fact that names them.

        A plan that is not known to be applied is discarded when something goes down; one that is applied
        stays, and only what has failed newly is restored by the next. down: False for what is to move.
        """
        instructions: Instructions = []
        case = self.cases.get(name)
        if case is None:
            deployment = self.deployments[name]
            case = self.cases[name] = TopologyCase(name=name, generation=deployment.before)
            instructions.append(Involve(topology=name))
            instructions += self._down_since_before(case, partitions)
        elif case.unapplied:
            instructions += self._transition(case, Phase.FAILED, why) if down else []
        elif case.phase is Phase.VERIFYING:
            instructions += self._transition(case, Phase.REPLAYING, why)
        elif case.phase in (Phase.VERIFIED, Phase.DROPPED):
            instructions += self._transition(case, Phase.FAILED, why)
            instructions += self._down_since_before(case, partitions)
        case.failed |= set(partitions)
        case.moves = {}
        if down and partitions:
            instructions.append(
                MarkPartitions(topology=name, state="failed", partitions=frozenset(partitions))
            )
        return instructions

    def _drop_if_done(self, name: str, why: str) -> Instructions:
        """Nothing has failed any more of a topology for which no plan was made."""
        case = self.cases[name]
        if case.phase is not Phase.FAILED or case.anything_left:
            return []
        return self._transition(case, Phase.DROPPED, why)

    def _down_since_before(self, case: TopologyCase, partitions: Collection[str]) -> Instructions:
        """An incident that was aborted leaves partitions on lost nodes; no new plan may name these."""
        case.failed |= self.deployments[case.name].unassigned
        more = self._down(case.name) - case.failed - set(partitions)
        if not more:
            return []
        case.failed |= more
        text = f"Down since before, of {case.name}: {', '.join(sorted(more, key=natural_key))}."
        return self._tell("evidence", text, self._lost((), {case.name: more}))

    # ---- what follows ------------------------------------------------------------------------------

    def _look_again(self, *, may_plan: bool, only: str | None = None) -> Instructions:
        """What follows from the present state: requests for nodes, plans, the state of the incident. only:
        the one topology of which anything has changed."""
        if self.state in ENDED_STATES:
            return []
        instructions = [*self._overlooked(only), *self._running_though_parked(), *self._keep_costs()]
        if not self.memory.paused:
            instructions += self._ask_for_nodes()
        if may_plan and not self.memory.paused:
            instructions += [one for _, case in sorted(self.cases.items()) for one in self._spread(case)]
        if may_plan:
            instructions += self._look_at_cases()
        state = decisions.state_of_incident(
            self.cases.values(),
            caught_up=self.memory.caught_up,
            requests=self.requests.values(),
            losses=self.memory.losses,
            queries_awaited=len(self.queries_awaited),
        )
        return [*instructions, *self._enter(state)]

    def _overlooked(self, only: str | None = None) -> Instructions:
        """What is on lost nodes without having failed: a replica took over there, and that became known after
        the loss. The topology may be none of this incident's, since no loss seemed to concern it."""
        instructions: Instructions = []
        alive = self._alive()
        for name, deployment in self._deployed(only):
            case = self.cases.get(name)
            if case is not None and case.unapplied:
                continue  # what the plan restores, the driver does not leave where it is
            down = acting.astray(deployment, self.nodes)
            if case is not None and case.phase not in ENDED_PHASES:
                down = self._down(name, alive) - case.failed
            if not down:
                continue
            text = f"Replicas of {wording.listed(down)} of {name} acted on nodes that are lost as well."
            instructions += self._tell("evidence", text, self._lost((), {name: down}))
            instructions += self._fail(name, down, "replicas that acted are lost")
        return [*instructions, *self._still_on_drained(only)]

    def _deployed(self, only: str | None) -> list[tuple[str, Deployment]]:
        """Deployments by name, or the only one that is asked for."""
        if only is None:
            return sorted(self.deployments.items())
        return [(only, self.deployments[only])] if only in self.deployments else []

    def _still_on_drained(self, only: str | None) -> Instructions:
        """What has come to a node since it is being drained, as replicas took over there, is to move, too."""
        if not self.memory.drained:
            return []
        instructions: Instructions = []
        for name, deployment in self._deployed(only):
            case = self.cases.get(name)
            if case is not None and case.unapplied:
                continue
            placed = deployment.assignment.items()
            there = {p for p, node in placed if node in self.memory.drained} - self._still_failed(name)
            if there:
                instructions += self._fail(name, there, "it runs on a drained node", down=False)
                fact = facts.StillFailed(self._failed({name: there}))
                text = f"{name} runs on a drained node. To move: {wording.listed(there)}."
                instructions += self._tell("evidence", text, fact)
        return instructions

    def _running_though_parked(self) -> Instructions:
        """What is parked runs again if its node returned before it was stopped, or the topology was deployed
        anew. It is to stop until it is unparked."""
        instructions: Instructions = []
        for name, queries in sorted(self.memory.parked.items()):
            deployment, case = self.deployments.get(name), self.cases.get(name)
            if deployment is not None and not (case is not None and case.unapplied):
                instructions += self._stop_parked(name, queries, f"{name} runs what is parked.")
        return instructions

    def _stop_parked(self, name: str, queries: frozenset[str], text: str = "") -> Instructions:
        """What only these queries need is to stop, if it runs."""
        deployment = self.deployments[name]
        runs = deployment.assignment.keys() - self._still_failed(name)
        stop = deployment.topology.exclusive_partitions(queries) & runs
        if not stop:
            return []
        instructions = self._fail(name, stop, "queries are to be parked", down=False)
        stays = facts.StillFailed(self._failed({name: stop}))
        return [
            *instructions,
            *self._tell("evidence", f"{text} To stop: {wording.listed(stop)}.".strip(), stays),
        ]

    def _keep_costs(self) -> Instructions:
        if all(case.phase in ENDED_PHASES for case in self.cases.values()):
            return []
        if all(self._costed.get(name) is one.topology for name, one in self.deployments.items()):
            return []
        self._costed = {name: one.topology for name, one in self.deployments.items()}
        fixed = costs_fix(self.deployments, self.nodes, self.memory.costs, self.max_utilisation)
        if not fixed:
            return []
        self.memory.costs.update(fixed)
        return [KeepCosts(costs=fixed)]

    def _raise_costs(self, name: str) -> Instructions:
        """What partitions count for has proved too little."""
        kept = self.memory.costs[name]
        most = max((n.limit(self.max_utilisation) for n in self.nodes.values()), default=0.0)
        raised = costs_raised(kept, self.deployments[name], most=most)
        if raised == kept:
            return []
        self.memory.costs[name] = raised
        return [KeepCosts(costs={name: raised})]

    def _look_at_cases(self) -> Instructions:
        instructions: Instructions = []
        for name in sorted(self.cases):
            if self.cases[name].awaits_wave:
                instructions += self._check(self.cases[name])
        if self.memory.paused:
            return instructions
        waiting = [
            case
            for _, case in sorted(self.cases.items())
            if case.awaits_wave and not acting.awaited(case, self.memory.loss_times, self.now)
        ]
        if not waiting:
            return instructions
        joint: list[TopologyCase] = []
        moving: list[TopologyCase] = []
        situation = self._situation()  # which method a topology has does not change it
        for case in waiting:
            method, told = self._method(case, situation)
            instructions += told
            # Where nothing is down and all is to go back all the same, there is nothing to choose from.
            if method == MOVE:
                moving.append(case)
            elif method == INCREMENTAL and case.failed:
                joint.append(case)
        # Queries come before whole topologies: what blocks can wait a little longer for its room.
        decided = self.incremental.next_waves(joint, situation)
        instructions += self._make_room(joint, decided, situation) or self._decide(decided)
        for case in waiting:
            if case not in joint:
                alone = self.moving if case in moving else self.blocking
                instructions += self._decide(alone.next_waves([case], self._situation()))
        return instructions

    def _make_room(
        self, joint: list[TopologyCase], decided: Mapping[str, Wave | Waiting], situation: Situation
    ) -> Instructions:
        """Move what runs where only that brings queries back; once, until something returns, fails or joins.
        Nothing moves before an operator has decided about a plan that needs a confirmation."""
        if not joint or any(isinstance(one, Wave) for one in decided.values()):
            return []
        losses = [at for at, _ in self.memory.loss_times]
        if is_awaited(self.cases.values(), situation, losses, self.now):
            return []
        made = facts.RoomMade(
            down=sum(len(case.failed) for case in self.cases.values()),
            nodes=tuple(node.name for node in situation.usable),
        )
        if made == self.memory.room_made:
            return []
        room = self.incremental.room(joint, situation)
        if room is None:
            return []
        instructions = self._tell("decision", wording.room_made(room.queries), made)
        for name, moves in room.moves.items():
            what = moves_words(name, self.deployments[name].assignment, moves)
            why = "what runs makes room"
            instructions += self._rebalance(name, dict(moves), what, why, light=True)
            instructions += self._decide(self.moving.next_waves([self.cases[name]], self._situation()))
        return instructions

    def _spread(self, case: TopologyCase) -> Instructions:
        """Plan again what is to be restored on nodes that have not begun with it, if others joined since."""
        waiting, joined = not_begun(case, self.deployments, self._situation, self.memory, self.now)
        if not waiting:
            return []
        deployment = self.deployments[case.name]
        text = wording.spread(case.name, waiting, joined)
        failed = self._failed({case.name: waiting})[case.name]
        instructions = self._tell("decision", text, facts.Spread(case.name, failed, tuple(sorted(joined))))
        instructions += self._fail(case.name, waiting, "nodes joined before it was begun")
        # Their nodes have nothing of them, so these are no more their homes than any other.
        for partition in waiting:
            del deployment.assignment[partition]
            deployment.homes.pop(partition, None)
        return instructions

    def _relieve(self, case: TopologyCase) -> Instructions:
        """A wave that does not catch up in time is eased by moves, or queries are parked."""
        relief = relief_for(
            case,
            deployments=self.deployments,
            situation=self._situation,
            now=self.now,
            parked=self.memory.parked_by_policy.get(case.name, frozenset()),
            parked_before=self.memory.overloads[case.name] > 0,
            awaited=any(one.rpartition("/")[0] == case.name for one in self.queries_awaited),
        )
        if relief is None:
            return []
        if relief.moves:
            name = case.name
            what = moves_words(name, self.deployments[name].assignment, relief.moves)
            match relief.of:
                case "light":
                    why, text = "partitions with little state are to move", wording.light_moves(name, what)
                case "late":
                    why, text = "its queries are late", wording.late(name, relief.waited, what)
                case "busy":
                    why, text = "its nodes are too busy", wording.busy(name, case.load, what)
                case "behind":
                    why = "it has not caught up in time"
                    text = wording.slow_to_return(name, relief.waited, what)
            return self._rebalance(name, dict(relief.moves), text, why, light=relief.of == "light")
        text = wording.too_much(case.name, relief.waited, case.load, relief.parks)
        instructions = self._raise_costs(case.name)
        parks = self._parked(case.name) | relief.parks
        limits = limits_of(
            case.name,
            self.deployments,
            self.memory.costs,
            nodes=[node for node in self.nodes.values() if node.alive],
            failed={name: one.failed for name, one in self.cases.items()},
            stop=self.deployments[case.name].topology.exclusive_partitions(parks),
            load=case.load,
        )
        limits = {**self.memory.limits.get(case.name, {}), **limits}
        return [*instructions, *self._park(case.name, parks, text, limits=limits)]

    def _check(self, case: TopologyCase) -> Instructions:
        """Whether there is anything to plan at all."""
        if case.name not in self.deployments:
            return self._transition(case, Phase.DROPPED, "it is not deployed any more")
        if case.moves and not possible_moves(case, self._situation()):
            case.moves = {}
            fact: facts.Fact = facts.Rebalancing(case.name, self._generation(case.name), {})
            text = f"{case.name}: the nodes to which partitions were to move have no room now; nothing moves."
            instructions = self._tell("step", text, fact)
            return [*instructions, *(self._check(case) if case.phase is Phase.FAILED else [])]
        if case.anything_left:
            return []
        down = self._down(case.name)
        if not down:
            return self._transition(case, Phase.DROPPED, "a newer plan has replaced what was lost")
        fact = self._lost((), {case.name: down})
        text = f"The plan now in force has partitions on lost nodes: {wording.listed(down)}."
        return [*self._fail(case.name, down, "still down"), *self._tell("evidence", text, fact)]

    def _method(self, case: TopologyCase, situation: Situation) -> tuple[str, Instructions]:
        method, why = decisions.method_of(case, situation, self.memory)
        if self.memory.method.get(case.name) == method:
            return method, []
        text = wording.method_chosen(case.name, method, why)
        return method, self._tell("decision", text, facts.MethodChosen(case.name, method))

    def _settled(self) -> bool:
        """Whether every query that has what it needs is available; without a reserve nothing waits for it."""
        if self.replay_reserve <= 1.0:
            return True
        down = sum(
            len(deployment.topology.failed_queries(case.failed))
            for name, case in self.cases.items()
            if (deployment := self.deployments.get(name)) is not None
        )
        return len(self.queries_awaited) <= down

    def _situation(self) -> Situation:
        policies = [self.deployments[name].policy for name in self.cases if name in self.deployments]
        requests = self.requests.values()
        # When nodes are expected takes a while to work out, so it is done only for planners that ask.
        looks_ahead = any(policy.planner == LookAhead.name for policy in policies)
        settled = self._settled()
        memory = self.memory
        return Situation(
            cases=self.cases,
            deployments=self.deployments,
            nodes=decisions.nodes_to_plan_with(self.nodes, memory, self.now, self.max_utilisation),
            costs=memory.costs,
            lost=frozenset(memory.lost),
            drained=frozenset(memory.drained),
            expedited=decisions.expedited(self.cases, self.deployments, memory),
            parked=memory.parked,
            limited=frozenset(
                name for name in memory.limits if memory.losses and memory.parked_by_policy.get(name)
            ),
            at_limit=frozenset(node for limits in memory.limits.values() for node in limits),
            expected=len(replacements.expected(requests)),
            arrivals=replacements.arrivals(
                requests,
                delay=self.delay,
                now=self.now,
                load=self._load_of_a_node(),
                max_utilisation=self.max_utilisation,
            )
            if looks_ahead
            else (),
            max_utilisation=self.max_utilisation,
            replaying={
                name: replaying(
                    case,
                    caught_up=memory.caught_up,
                    settled=settled,
                    now=self.now,
                    back=self._of_wave(case),
                )
                for name, case in self.cases.items()
                if name in self.deployments and self.deployments[name].topology.replays
            },
            replay_reserve=self.replay_reserve,
        )

    def _decide(self, decided: Mapping[str, Wave | Waiting]) -> Instructions:
        """Carry out what a method decided, topology by topology."""
        instructions: Instructions = []
        for name, decision in decided.items():
            case = self.cases[name]
            if isinstance(decision, Waiting):
                instructions += self._wait(case, decision)
            else:
                instructions += self._propose_or_plan(case, decision)
        return instructions

    def _wait(self, case: TopologyCase, waiting: Waiting) -> Instructions:
        reason = waiting.reason
        further = self._ask_for_one_more(case) if waiting.short else []
        if waiting.short and not further:
            reason = f"{reason} {replacements.NO_MORE}"
        instructions: Instructions = []
        proposed = self.memory.proposal(case.name, self._generation(case.name))
        if proposed is not None:
            fact: facts.Fact = facts.Withdrawn(case.name, proposed.proposal)
            text = f"Proposal {proposed.proposal} is withdrawn. {reason}"
            instructions += self._tell("decision", text, fact)
        # What is free changes with every look; a story that repeats itself hides what happened.
        if not wording.same_but_for_figures(self.memory.waiting.get(case.name, ""), reason):
            fact = facts.Deferred(case.name, reason)
            instructions += self._tell("decision", f"{case.name}: {reason}", fact)
        return [*instructions, *further]

    def _propose_or_plan(self, case: TopologyCase, wave: Wave) -> Instructions:
        """A plan that needs a confirmation is proposed once; it is carried out when it is confirmed."""
        deployment = self.deployments[case.name]
        proposed = proposals.proposal_of(case, deployment.generation, wave)
        confirmed = proposed.proposal in self.memory.approved
        if confirmed or deployment.policy.approval == "automatic":
            return self._plan(case, wave, proposed.proposal if confirmed else None)
        before = self.memory.proposal(case.name, deployment.generation)
        if before is not None and before.proposal == proposed.proposal:
            return []
        overtaken = (
            before.proposal if before is not None and before.proposal in self.memory.approved else None
        )
        text = wording.proposed(case.name, proposed.proposal, wave.reason, overtaken)
        return self._tell("decision", text, proposed)

    def _plan(self, case: TopologyCase, wave: Wave, proposal: str | None) -> Instructions:
        deployment = self.deployments[case.name]
        plan = decisions.plan_of(case, deployment, wave, proposal)
        case.failed -= set(wave.restore)
        case.failed |= set(wave.parked)
        case.restore, case.unrestored, case.forced = frozenset(wave.restore), set(), False
        case.moves, case.applied_at, case.caught_up_at = {}, None, None
        case.generation, case.wave, case.checkpoint = plan.generation, plan.wave, wave.checkpoint
        case.method, case.rollback, case.rollback_pending = wave.method, wave.rollback, False
        deployment.generation, deployment.assignment = plan.generation, dict(wave.assignment)
        deployment.taken = {}
        text = f"Plan {plan.generation}, wave {plan.wave}: {wave.reason}"
        # Query by query the plan itself explains; the story needs the outline.
        outline = {name: value for name, value in plan.explanation.items() if name != "explanations"}
        told = self._tell("decision", text, outline=outline)
        # Rebuilding knows what a plan does not assign, but not what still runs and is yet to move.
        moving = case.failed & wave.assignment.keys()
        if moving:
            fact = facts.StillFailed(self._failed({case.name: moving}))
            told += self._tell("step", f"Still to move: {wording.listed(moving)}.", fact)
        marks = [MarkPartitions(topology=case.name, state="restoring", partitions=frozenset(wave.restore))]
        if wave.parked:
            stopped = frozenset(wave.parked)
            marks.append(MarkPartitions(topology=case.name, state="failed", partitions=stopped))
        return [plan, *told, *marks, *self._transition(case, Phase.PLANNED, "planned")]

    def _enter(self, state: State) -> Instructions:
        if state is self.state:
            return []
        self.state = state
        instructions: Instructions = [EnterState(state=state)]
        if state is State.CATCHING_UP:
            instructions += self._tell("step", wording.catching_up(len(self.queries_awaited)))
        if state is State.CLOSED:
            text = wording.closed(
                recovered=[name for name, case in self.cases.items() if case.phase is Phase.VERIFIED],
                took=None if self.opened_at is None else self.now - self.opened_at,
                coming=len(replacements.expected(self.requests.values())),
            )
            instructions += self._tell("outcome", text)
        return instructions

    # ---- nodes asked of the provider ---------------------------------------------------------------

    def _ask_for_nodes(self) -> Instructions:
        """One request for each lost node; another where the one before failed or its node was lost too."""
        instructions: Instructions = []
        for request in replacements.overdue(self.requests.values(), self.now):
            reason = f"it did not register within {replacements.JOIN_LIMIT:.0f} s of its start"
            instructions += self._give_up(request, reason)
        asked = replacements.missing(self.memory.losses, self.requests.values())
        instructions += [self._ask(node, attempt) for node, attempt in asked]
        if asked:
            text = (
                f"Asked the provider for {wording.counted(len(asked), 'replacement node')}, "
                f"in place of {wording.listed([node for node, _ in asked])}."
            )
            instructions += self._tell("step", text)
        return instructions

    def _ask_for_one_more(self, case: TopologyCase) -> Instructions:
        """A node on top of the replacements; nothing if many of them have not helped."""
        further = replacements.one_more(
            case,
            deployment=self.deployments[case.name],
            nodes=self.nodes,
            requests=self.requests.values(),
            losses=self.memory.losses,
            costs=self.memory.costs.get(case.name, {}),
            load=self._load_of_a_node(),
            max_utilisation=self.max_utilisation,
        )
        if further is None:
            return []
        text = f"Asked the provider for one more node, because {case.name} needs the capacity."
        return [self._ask(*further), *self._tell("step", text)]

    def _ask(self, node: str, attempt: int) -> AskForNode:
        key = f"incident-{self.number}/{node}/{attempt}"
        self.requests[key] = Request(
            key=key,
            lost_node=node,
            attempt=attempt,
            requested_at=self.now,
            capacity=replacements.capacity_of(self.nodes, node),
        )
        return AskForNode(key=key, lost_node=node, attempt=attempt)

    def _give_up(self, request: Request, reason: str) -> Instructions:
        request.state = "failed"
        told = self._tell("step", f"Request {request.key} given up: {reason}.")
        return [GiveUpRequest(key=request.key, reason=reason), *told]

    # ---- shared ------------------------------------------------------------------------------------

    def _tell(
        self,
        kind: EntryKind,
        text: str,
        fact: facts.Fact | None = None,
        *,
        outline: Mapping[str, Any] | None = None,
    ) -> Instructions:
        """Add a sentence to the story; a fact is remembered at once."""
        if fact is not None:
            self.memory.remember(fact)
        self.story.append((self.now, kind, text))
        return [Tell(kind=kind, text=text, fact=fact, outline=outline or {})]

    def _affected_by(self, nodes: frozenset[str]) -> dict[str, frozenset[str]]:
        """Topology -> its partitions on any of these nodes, and only topologies that have some."""
        found = {
            name: frozenset(p for p, node in deployment.assignment.items() if node in nodes)
            for name, deployment in sorted(self.deployments.items())
        }
        return {name: partitions for name, partitions in found.items() if partitions}

    def _alive(self) -> set[str]:
        return {node.name for node in self.nodes.values() if node.alive}

    def _down(self, topology: str, alive: Collection[str] | None = None) -> frozenset[str]:
        """Partitions that have no living node, or none at all. alive: the nodes that live, for callers that
        ask for many topologies."""
        alive = self._alive() if alive is None else alive
        deployment = self.deployments[topology]
        return frozenset(
            p for p in deployment.topology.partitions if deployment.assignment.get(p) not in alive
        )

    def _of_wave(self, case: TopologyCase) -> frozenset[str]:
        """The partitions that the last plan put back, as far as they have not failed again."""
        deployment = self.deployments.get(case.name)
        everything = case.rollback and deployment is not None
        back = deployment.assignment.keys() if everything and deployment is not None else case.restore
        return frozenset(back) - case.failed

    def _failed(self, affected: Mapping[str, Collection[str]]) -> dict[str, facts.Failed]:
        return {
            name: facts.Failed(self.deployments[name].generation, tuple(sorted(partitions, key=natural_key)))
            for name, partitions in affected.items()
        }

    def _lost(
        self, nodes: Collection[str], affected: Mapping[str, Collection[str]], avoid: Collection[str] = ()
    ) -> facts.Lost:
        failed = self._failed(affected)
        return facts.Lost(at=self.now, nodes=tuple(sorted(nodes)), failed=failed, avoid=tuple(avoid))

    def _parked(self, topology: str) -> frozenset[str]:
        return self.memory.parked.get(topology, frozenset())

    def _held(self, topology: str) -> frozenset[str]:
        """Partitions of a deployed topology that only parked queries need."""
        return self.deployments[topology].topology.exclusive_partitions(self._parked(topology))

    def _still_failed(self, topology: str) -> set[str]:
        """Partitions that are down or are to move; a copy."""
        case = self.cases.get(topology)
        return set(case.failed) if case is not None else set()

    def _load_of_a_node(self) -> float:
        """CPU percent that every node has besides its partitions, also one that is still to come."""
        return sum(deployment.node_cpu for deployment in self.deployments.values())

    def _generation(self, topology: str) -> int:
        return decisions.generation_of(topology, self.cases, self.deployments)

    # ---- invariants --------------------------------------------------------------------------------

    def validate_state(self) -> None:
        """Raises AssertionError with the first invariant that does not hold and the incident's story."""
        for problem in problems_of(self.state, self.cases, self.deployments, self.requests.values()):
            story = "\n".join(f"  {at:.3f}  {what}: {text}" for at, what, text in self.story)
            raise AssertionError(f"incident {self.number}: {problem}\n{story}")
