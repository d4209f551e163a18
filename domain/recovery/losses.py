"""Events about nodes and partitions: lost, returned, arrived, to be emptied."""

from __future__ import annotations

from domain.planning import natural_key
from domain.recovery import wording
from domain.recovery.events import (
    DrainAsked,
    NodeArrived,
    NodeReturned,
    NodesLost,
    PartitionsLost,
)
from domain.recovery.incident import Phase
from domain.recovery.instructions import Instruction, MarkPartitions
from domain.recovery.waves import Waves


class Losses(Waves):
    """What fails and what comes."""

    def _on_nodes_lost(self, event: NodesLost) -> list[Instruction]:
        new = [node for node in sorted(event.nodes, key=natural_key) if node not in self.memory.lost]
        if not new:
            return []
        affected = self._affected_by(frozenset(new))
        for node in new:
            if node in self.nodes:
                self.nodes[node].alive = self.nodes[node].usable = False
        fact = self._lost_fact(new, affected)
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
        if case is not None and case.phase in (Phase.PLANNED, Phase.PUBLISHED):
            return []
        known = case.failed if case is not None else deployment.left_out
        new = event.partitions & deployment.assignment.keys() - known
        if not new:
            return []
        # What does not start on a living node will not start there with the next plan either.
        avoid = sorted({deployment.assignment[p] for p in new}, key=natural_key)
        fact = self._lost_fact((), {event.topology: new}, avoid=avoid)
        text = wording.partitions_lost(event.topology, new)
        return [
            *self._tell("stimulus", text, fact),
            *self._tell("evidence", event.evidence),
            *self._fail(event.topology, new, "partitions absent on living nodes"),
        ]

    def _on_returned(self, event: NodeReturned) -> list[Instruction]:
        if event.node not in self.memory.lost:
            return []
        kept: dict[str, set[str]] = {}
        for name, case in self.cases.items():
            assignment = self.deployments[name].assignment if name in self.deployments else {}
            # What a plan was to restore there that was thrown away never ran there.
            mine = {p for p in case.failed - case.unrestored if assignment.get(p) == event.node}
            if case.awaits_wave and mine:
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
            if case.phase is Phase.FAILED and not case.failed and not case.forced:
                instructions += self._transition(case, Phase.DROPPED, "its nodes came back before any plan")
        for request in self.requests.values():
            if request.lost_node == event.node and request.state == "pending":
                instructions += self._give_up(request, f"not needed any more: {event.node} came back")
        return instructions

    def _on_arrived(self, event: NodeArrived) -> list[Instruction]:
        if event.node in self.memory.arrived:
            return []
        fact = {"fact": "arrived", "node": event.node}
        return self._tell("step", f"{event.node} has joined and has nothing to run yet.", fact)

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

    def _affected_by(self, nodes: frozenset[str]) -> dict[str, frozenset[str]]:
        """Topology -> its partitions on any of these nodes, and only topologies that have some."""
        found = {
            name: frozenset(p for p, node in deployment.assignment.items() if node in nodes)
            for name, deployment in sorted(self.deployments.items())
        }
        return {name: partitions for name, partitions in found.items() if partitions}
