"""Rules for every step of an incident."""

from __future__ import annotations

from collections.abc import Collection

from domain.recovery.events import DriverReported
from domain.recovery.fuller import FULLER
from domain.recovery.instructions import CreatePlan
from domain.recovery.machine import IncidentMachine
from tests.simulation.incident_rows import Plan, Rows

BOUND = 0.8
ROUNDING = 1e-3


class Rules(Rows):
    """Raises AssertionError if a rule does not hold."""

    def check_costs(self, number: int, fixed: set[str], deployed: Collection[str]) -> None:
        """Before the incident the costs on each node are within its bound, with those fixed earlier, and no
        cost is above the measured one."""
        earlier: dict[str, float] = {}
        load: dict[str, float] = {}
        for name in self.costs[number].keys() & set(deployed):
            deployment, costs = self.deployment(name, number), self.costs[number][name]
            for partition, home in deployment.homes.items():
                if name not in fixed:
                    earlier[home] = earlier.get(home, 0.0) + costs.get(partition, 0.0)
                    continue
                cost, measured = costs[partition], deployment.costs.get(partition, 0.0)
                assert 0 < cost <= (measured or max(100.0, *self.capacity.values())) + ROUNDING
                load[home] = load.get(home, 0.0) + cost
        for node, total in load.items():
            room = max(0.0, self.capacity[node] * BOUND - earlier.get(node, 0.0))
            # A redeployment during the incident may place more there than fits; these partitions cost little.
            assert total <= room * (1 + 1e-3) + 0.1, (node, total, room)

    def check_plan(self, number: int, new: CreatePlan, machine: IncidentMachine) -> None:
        run = self.runs[new.topology]
        assert run.generation == new.expected, "compare and set failed"
        assert new.generation > run.generation, "generations only grow"
        assert number not in self.paused, "planned while paused"
        if run.policy.approval == "approve":
            confirmed = [self.proposed[one] for one in self.approved]
            assert any(
                (fact.topology, fact.generation, fact.restore) == (new.topology, new.expected, new.restore)
                for fact in confirmed
            ), "planned without a confirmation"
        dead = {node for node in new.assignment.values() if node in self.recorded_lost}
        assert not dead, f"planned on lost nodes {dead}"
        assert set(new.assignment) <= set(run.graph.partitions)
        assert set(new.restore) <= set(new.assignment), "to be restored, but nowhere"
        whole = run.graph.query_partitions
        for query in new.explanation.get("queries", ()):
            assert whole[query] <= new.assignment.keys(), f"{query} is not whole with this plan"
        held = run.graph.exclusive_partitions(self.parked.get(new.topology, frozenset()))
        assert not held & new.assignment.keys(), f"{held} belong to parked queries"
        unassigned = set(run.graph.partitions) - set(new.assignment)
        assert unassigned <= machine.cases[new.topology].failed | machine.deployments[new.topology].unassigned
        self.count(f"{new.method} plans")
        self.count("partial plans" if unassigned else "full plans")
        if new.wave > 1:
            self.count("later waves")
        self.check_rollback(number, new, machine)

    def without_node(self, new: CreatePlan) -> set[str]:
        """Partitions that are on a node that was lost, or on none, before the plan."""
        before = self.placed(new.topology)
        return {
            p
            for p in self.runs[new.topology].graph.partitions
            if before.get(p) in {None, *self.recorded_lost}
        }

    def check_rollback(self, number: int, new: CreatePlan, machine: IncidentMachine) -> None:
        run = self.runs[new.topology]
        if new.method == "blocking":
            assert new.rollback, "blocking undoes everything"
            assert not new.buffering
            assert set(new.assignment) == set(run.graph.partitions), "blocking restores everything"
            return
        if new.method == "move":
            assert (new.kind, new.rollback, new.buffering) == ("move", False, False), "nothing is put back"
            before = machine.cases[new.topology].failed | self.without_node(new)
            assert not set(new.restore) & before, "what is down cannot move"
            return
        assert new.buffering
        if not new.restore:  # queries are parked: what runs goes on
            return
        if not run.graph.deterministic:
            assert new.rollback, "replays of this topology differ: everything goes back"
        ours = {p.generation for p in self.plans if p.topology == new.topology and p.incident == number}
        if run.policy.rollback == "global" and not ours & set(run.driver.applied):
            assert new.rollback, "no plan of the incident is applied"

    def check_load(self, number: int, new: CreatePlan, machine: IncidentMachine) -> None:
        """Nodes with new partitions are within their bounds, and the plan costs no more than was free. To
        keep a chain whole, a plan may fill them a little more, and says so."""
        costs = self.costs[number]
        load: dict[str, float] = {}
        for name in self.runs:
            failed = machine.cases[name].failed if name in machine.cases else set()
            for partition, node in self.placed(name).items():
                if name == new.topology or partition not in failed:
                    load[node] = load.get(node, 0.0) + costs[name][partition]
        bound = new.explanation.get("max_utilisation", BOUND)
        assert bound in {BOUND, round(BOUND * FULLER, 4)}
        if bound > BOUND:
            self.count("fuller plans")
        before = dict(load)
        for partition, home in new.explanation.get("moved_from", {}).items():
            cost = costs[new.topology][partition]
            before[new.assignment[partition]] -= cost
            before[home] = before.get(home, 0.0) + cost
        for node in {new.assignment[p] for p in new.restore}:
            # A node that has too much may change a partition for a smaller one.
            most = max(self.capacity[node] * bound, before[node] if new.kind == "move" else 0.0)
            assert load[node] <= most + ROUNDING, (node, load[node], new)
        if new.method == "incremental":
            told = new.explanation
            assert told["cost_percent"] <= told["capacity_percent"] + ROUNDING
            mine = sum(costs[new.topology][p] for p in new.restore)
            assert mine <= told["cost_percent"] + ROUNDING

    def check_caught_up(self, plan: Plan, machine: IncidentMachine, reports: list[DriverReported]) -> None:
        wave = set(plan.assignment if plan.rollback else plan.restore)
        case = machine.cases[plan.topology]
        wave -= case.failed
        if case.generation > plan.generation:
            wave -= case.restore  # failed then, and planned later in the same step
        mine = [r for r in reports if r.topology == plan.topology and r.generation >= plan.generation]
        assert any(not wave & (r.absent | r.behind) for r in mine), "told to have caught up, and has not"

    def check_closed(self, machine: IncidentMachine) -> None:
        """A recovered query has all its partitions, and none of them on a node that was to be emptied."""
        for name, case in machine.cases.items():
            if case.phase == "verified":
                placed = self.newest(name).assignment
                assert set(placed) == set(self.runs[name].graph.partitions), name
                on_drained = {
                    p for p, node in placed.items() if node in self.draining & machine.memory.drained
                }
                assert not on_drained, f"{on_drained} of {name} are still on a drained node"
