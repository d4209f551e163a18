"""Nodes asked of the provider: one for each lost node, further ones where those fail or do not suffice."""

from __future__ import annotations

from collections import Counter

from domain.planning import Arrival, expected_arrivals, natural_key
from domain.recovery import wording
from domain.recovery.incident import Request, TopologyCase
from domain.recovery.instructions import AskForNode, GiveUpRequest, Instruction
from domain.recovery.transitions import Transitions

JOIN_LIMIT = 120.0  # seconds a started replacement may take to register before another is asked for
FRUITLESS = 10  # further nodes on top of one for every partition, before no more are asked for
NO_MORE = (
    "Several nodes more have not helped, so no further one is asked for: add a larger node, raise the bound "
    "of utilisation, or undeploy what matters least."
)
STANDARD_CAPACITY = 100.0  # CPU percent of a replacement for a node nobody knows


class Replacements(Transitions):
    """What is asked of the provider, and when it is expected."""

    def _ask_for_nodes(self) -> list[Instruction]:
        """One request for each lost node; another where the one before failed or its node was lost too."""
        instructions: list[Instruction] = []
        for request in self.requests.values():
            started = request.started_at if request.state == "started" else None
            if started is not None and self.now - started > JOIN_LIMIT:
                reason = f"it did not register within {JOIN_LIMIT:.0f} s of its start"
                instructions += self._give_up(request, reason)
        asked: list[str] = []
        made = Counter(request.lost_node for request in self.requests.values())
        good = Counter(request.lost_node for request in self.requests.values() if request.state != "failed")
        short = [node for node, losses in self.memory.losses.items() if losses > good[node]]
        for node in sorted(short, key=natural_key):
            first = made[node] + 1
            for attempt in range(first, first + self.memory.losses[node] - good[node]):
                key = f"incident-{self.number}/{node}/{attempt}"
                instructions.append(self._ask(key, node, attempt))
                asked.append(node)
        if asked:
            instructions += self._tell(
                "step",
                f"Asked the provider for {wording.counted(len(asked), 'replacement node')}, "
                f"in place of {wording.listed(asked)}.",
            )
        return instructions

    def _ask_for_one_more(self, case: TopologyCase) -> list[Instruction]:
        """Everything asked for is here and does not suffice: a node on top of the replacements. None if many
        of them have not helped."""
        deployment = self.deployments[case.name]
        homes = {home for p in case.failed if (home := deployment.home(p))}
        # As large as the largest of their homes: smaller ones might never take what is left, many as they be.
        # Somebody may have put them, meanwhile, where they would not fit by what they count for.
        costs = self.memory.costs.get(case.name, {})
        needed = max((costs.get(p, 0.0) for p in case.failed), default=0.0)
        if all(self._capacity(home) * self.max_utilisation < needed for home in homes):
            homes |= self.nodes.keys()
        node = min(homes, key=lambda name: (-self._capacity(name), natural_key(name)), default="capacity")
        mine = [request for request in self.requests.values() if request.lost_node == node]
        attempt = 1 + len(mine)
        came = sum(request.state == "joined" for request in mine)
        if came > self.memory.losses[node] + len(case.failed) + FRUITLESS:
            return []
        key = f"incident-{self.number}/{node}/{attempt}"
        return [
            self._ask(key, node, attempt),
            *self._tell("step", f"Asked the provider for one node more, because {case.name} needs the room."),
        ]

    def _give_up(self, request: Request, reason: str) -> list[Instruction]:
        request.state = "failed"
        told = self._tell("step", f"Request {request.key} given up: {reason}.")
        return [GiveUpRequest(key=request.key, reason=reason), *told]

    def _ask(self, key: str, node: str, attempt: int) -> AskForNode:
        self.requests[key] = Request(
            key=key,
            lost_node=node,
            attempt=attempt,
            requested_at=self.now,
            capacity=self._capacity(node),
        )
        return AskForNode(key=key, lost_node=node, attempt=attempt)

    def _capacity(self, node: str) -> float:
        return self.nodes[node].capacity if node in self.nodes else STANDARD_CAPACITY

    def _expected(self) -> list[Request]:
        """Replacements that have neither come nor failed."""
        return [request for request in self.requests.values() if request.state in ("pending", "started")]

    def _arrivals(self) -> tuple[Arrival, ...]:
        """When they are expected, by the provider's distribution of delays and the time each has waited."""
        expected = self._expected()
        if self.delay is None or not expected:
            return ()
        return expected_arrivals(
            self.delay,
            waited=[
                max(0.0, self.now - (self.now if r.requested_at is None else r.requested_at))
                for r in expected
            ],
            capacity=[request.capacity * self.max_utilisation for request in expected],
        )
