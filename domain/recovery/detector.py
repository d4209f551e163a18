"""Who is alive: a failure detector without I/O.

It combines several kinds of evidence, because each alone lies at times:

- the *registration* (an ephemeral znode) disappears late, after the session timeout, and for all nodes at
  once when ZooKeeper itself has trouble;
- the *heartbeat* (a znode the agent rewrites) goes silent when the machine is merely busy;
- the *driver's report* that a node's partitions are absent also comes while a node is still starting;
- a *refused lifeline* and a *lost executor* are quick (`evidence.py`), and each may have a cause of its own.

Rules, in this order (`Limits` holds the numbers):

1. While our own session is not connected no node is judged, and after it was interrupted every node has a
   grace period to come back. This is the mass-loss brake: ZooKeeper's trouble is not the nodes' trouble.
   Silence is counted from the moment our session works again, never over the time it did not.
2. Lost: the lifeline of the node's present session was refused *and* a driver lost its executor, both a short
   time ago. Within the grace period the heartbeat must also be silent from then on.
3. Lost: the lifeline was refused, the heartbeat is silent from then on, and no driver sees the node working.
   This is for nodes without executors.
4. Lost: the registration is gone in a listing of the present session *and* the heartbeat is silent too.
5. Lost: a driver cannot reach any partition of the node *and* its heartbeat is silent while others are
   heard; this is faster than the session timeout and holds also within the grace period, if the silence
   lasts a session timeout.
6. Lost: registered, but silent for long, and no driver has seen it working meanwhile (a hung agent).
7. Suspect: registration gone but the heartbeat goes on, or registered and silent for a while, or its lifeline
   was refused: nothing is placed there until it is clear.

Nodes that die together are given up together, so that recovery sees the whole failure: a loss by rule 2 waits
a moment (`TOGETHER`) for nodes whose lifeline was refused as well.

A registration is recognised by its session. One left over by the session that was lost does not bring a node
back; a new session of the same process does (`returned`); a new process under the same name is a
loss of the old one and an empty node.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from operator import attrgetter

from domain.messages import ExecutorGone, NodeRegistration
from domain.recovery.events import NodesLost
from domain.recovery.evidence import NEVER, REFUSED, TOGETHER
from domain.recovery.liveness import (
    DriverSaw,
    ExecutorsListed,
    HeartbeatRead,
    ImpossibleTransitionError,
    Instruction,
    LifelineCut,
    LifelineRestored,
    Limits,
    NodeAlive,
    NodeKnown,
    NodesListed,
    NodesSuspected,
    SessionConnected,
    SessionInterrupted,
    Stimulus,
    SuspicionCleared,
    WatchedNode,
)
from domain.recovery.verdict import verdict


class FailureDetector:
    """`handle_stimulus(*stimuli) -> instructions`; soft state only, rebuilt by listening after a restart."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.nodes: dict[str, WatchedNode] = {}
        self.now = NEVER
        self.connected_at: float | None = None
        self.grace_until = NEVER
        self.listed_at: float | None = None

    # ---- stimuli ---------------------------------------------------------------------------------

    def handle_stimulus(self, *stimuli: Stimulus) -> list[Instruction]:
        """Take in what happened, in order, and say what must be recorded."""
        instructions: list[Instruction] = []
        for stimulus in stimuli:
            self.now = max(self.now, stimulus.at)
            instructions += self._HANDLERS[type(stimulus)](self, stimulus)
        instructions += self._judge_all()
        return instructions

    def _handle_known(self, stimulus: NodeKnown) -> list[Instruction]:
        node = self._node(stimulus.node)
        if node.state != "unknown":
            return []
        node.session, node.pid = stimulus.session, stimulus.pid
        node.state = "lost" if stimulus.lost else "alive"
        if stimulus.lost:
            node.lost_session, node.lost_at = stimulus.session, stimulus.at
        node.story.append((stimulus.at, f"unknown -> {node.state}", "remembered by the database"))
        return []

    def _handle_connected(self, stimulus: SessionConnected) -> list[Instruction]:
        if self.connected_at is None:
            self.connected_at = stimulus.at
            self.grace_until = stimulus.at + self.limits.grace
            self.listed_at = None
        return []

    def _handle_interrupted(self, stimulus: SessionInterrupted) -> list[Instruction]:
        self.connected_at = None
        self.listed_at = None
        return []

    def _handle_listed(self, stimulus: NodesListed) -> list[Instruction]:
        if self.connected_at is None:  # made under a session that has gone: worth nothing
            return []
        self.listed_at = stimulus.at
        present = {registration.id: registration for registration in stimulus.registrations}
        for node in self.nodes.values():
            node.listed = node.name in present
        instructions: list[Instruction] = []
        for registration in stimulus.registrations:
            instructions += self._recognise(self._node(registration.id), registration)
        return instructions

    def _handle_heartbeat(self, stimulus: HeartbeatRead) -> list[Instruction]:
        node = self.nodes.get(stimulus.node)
        if node is None or self.connected_at is None:
            return []
        node.evidence.heartbeat_read(changed=stimulus.stamp != node.stamp)
        if stimulus.stamp == node.stamp:
            return []
        first_reading = node.stamp is None
        node.stamp = stimulus.stamp
        if first_reading:
            return []  # the node may have written it before it died; only a change shows that it is alive
        if node.state == "lost" and stimulus.session != node.session:
            return []
        if node.state == "lost" and stimulus.at - node.lost_at < self.limits.heartbeat_interval:
            return []  # sent before it died, perhaps; a live process sends another
        node.heard_at = stimulus.at
        registration = node.registration
        if node.state == "lost" and node.listed and registration is not None:
            return self._transition(
                node, "alive", "its heartbeat is back although it was given up", returned=True
            )
        return []

    def _handle_driver(self, stimulus: DriverSaw) -> list[Instruction]:
        for name in stimulus.working:
            node = self._node(name)
            node.worked_at = stimulus.at
            node.absent_in.pop(stimulus.topology, None)
        for node in self.nodes.values():
            if node.name in stimulus.absent:
                node.absent_in.setdefault(stimulus.topology, stimulus.at)
            else:
                node.absent_in.pop(stimulus.topology, None)
        return []

    def _handle_cut(self, stimulus: LifelineCut) -> list[Instruction]:
        node = self.nodes.get(stimulus.node)
        if node is not None and node.session == stimulus.session:
            node.evidence.cut(stimulus.at)
        return []

    def _handle_restored(self, stimulus: LifelineRestored) -> list[Instruction]:
        node = self.nodes.get(stimulus.node)
        if node is not None:
            node.evidence.restore()
        return []

    def _handle_executors(self, stimulus: ExecutorsListed) -> list[Instruction]:
        present = {name for seen in stimulus.drivers.values() for name in seen.present}
        gone: dict[str, dict[str, ExecutorGone]] = {}
        for topology, seen in stimulus.drivers.items():
            for name, one in seen.gone.items():
                gone.setdefault(name, {})[topology] = one
        for name, node in self.nodes.items():
            node.evidence.told(node.session, gone.get(name, {}), at=stimulus.at, has_executor=name in present)
        return []

    _HANDLERS: dict[type, Callable[..., list[Instruction]]] = {  # noqa: RUF012
        NodeKnown: _handle_known,
        SessionConnected: _handle_connected,
        SessionInterrupted: _handle_interrupted,
        NodesListed: _handle_listed,
        HeartbeatRead: _handle_heartbeat,
        DriverSaw: _handle_driver,
        LifelineCut: _handle_cut,
        LifelineRestored: _handle_restored,
        ExecutorsListed: _handle_executors,
    }

    # ---- judgement -------------------------------------------------------------------------------

    def _recognise(self, node: WatchedNode, registration: NodeRegistration) -> list[Instruction]:
        """A registration is in the listing: is it a new node, the same one, or another under its name?"""
        node.listed = True
        known, node.registration = node.registration, registration
        same_session = registration.session == (node.session or registration.session)
        if node.state == "unknown":
            return self._transition(node, "alive", "registered for the first time")
        if same_session:
            if node.state == "lost" and registration.session == node.lost_session:
                return []  # left over from the session that was given up; a heartbeat would prove life
            if known is None and node.state in ("alive", "suspect"):
                node.pid = registration.pid
                node.heard_at = max(node.heard_at, self.now)
            return []
        # A node's clock may be put back, and a ZooKeeper that has lost its data counts from the beginning.
        if (
            known is not None
            and registration.created <= known.created
            and registration.registered_at < known.registered_at
        ):
            node.registration = known  # an older registration than the one already seen
            return []
        if node.state == "lost":
            same_process = node.pid is not None and node.pid == registration.pid
            why = "registered again with a new session" + (" of the same process" if same_process else "")
            return self._transition(node, "alive", why, returned=same_process)
        if node.pid is None or node.pid == registration.pid or self.now < self.grace_until:
            return self._transition(node, "alive", "registered again with a new session", returned=True)
        lost = self._transition(
            node,
            "lost",
            f"another process (pid {registration.pid}, before {node.pid}) registered under its name, "
            "so its processes have ended",
        )
        node.registration, node.listed = registration, True
        return [*lost, *self._transition(node, "alive", "registered as a new, empty node")]

    def _judge_all(self) -> list[Instruction]:
        if self.connected_at is None or self.listed_at is None:
            return []
        instructions: list[Instruction] = []
        lost: dict[str, str] = {}
        suspected: dict[str, str] = {}
        heard = self._heard_lately()
        verdicts = [
            (node, *self._verdict(node, others_heard=not heard <= {name}))
            for name, node in sorted(self.nodes.items())
        ]
        unclear = any(
            target == "suspect" and node.evidence.is_cut(self.now, TOGETHER) for node, target, _ in verdicts
        )
        for node, target, evidence in verdicts:
            early = node.state != "lost" and node.evidence.complete_since(self.now) < TOGETHER
            if target == "lost" and unclear and early:
                target, evidence = "suspect", REFUSED
            if target == node.state:
                continue
            for instruction in self._transition(node, target, evidence):
                if isinstance(instruction, NodesLost):
                    lost.update(instruction.nodes)
                elif isinstance(instruction, NodesSuspected):
                    suspected.update(instruction.nodes)
                else:
                    instructions.append(instruction)
        if suspected:  # before the losses: what is planned for those must not use these
            instructions.append(NodesSuspected(suspected))
        if lost:
            instructions.append(NodesLost(at=self.now, nodes=lost))
        return instructions

    @property
    def hurried(self) -> bool:
        """Whether the next verdict may follow within a fraction of a second."""
        return any(
            node.state != "lost" and node.evidence.is_cut(self.now, 2 * TOGETHER)
            for node in self.nodes.values()
        )

    def _heard_lately(self) -> set[str]:
        """Up to two nodes: enough to know of each whether another one was heard."""
        newest = nlargest(2, self.nodes.values(), key=attrgetter("heard_at"))
        return {node.name for node in newest if self.now - node.heard_at < self.limits.absent}

    def _verdict(self, node: WatchedNode, *, others_heard: bool) -> tuple[str, str]:
        """The state the evidence speaks for, and the evidence in words."""
        if node.state in ("unknown", "lost") or self.connected_at is None:
            return node.state, ""
        return verdict(
            node,
            self.limits,
            now=self.now,
            connected_at=self.connected_at,
            grace_until=self.grace_until,
            others_heard=others_heard,
        )

    # ---- transitions -----------------------------------------------------------------------------

    def _transition(
        self, node: WatchedNode, finish: str, evidence: str, *, returned: bool = False
    ) -> list[Instruction]:
        start = node.state
        action = self._TRANSITIONS.get((start, finish))
        if action is None:
            raise ImpossibleTransitionError(f"node {node.name}", start, finish, node.story)
        node.story = [*node.story[-49:], (self.now, f"{start} -> {finish}", evidence)]
        node.state = finish
        return action(self, node, evidence, returned)

    def _to_alive(self, node: WatchedNode, evidence: str, returned: bool) -> list[Instruction]:
        registration = node.registration
        if registration is None:
            raise ImpossibleTransitionError(f"node {node.name}", "unregistered", "alive", node.story)
        node.session, node.pid = registration.session, registration.pid
        node.heard_at = self.now
        node.absent_in.clear()
        node.evidence.clear()
        return [NodeAlive(registration, returned, evidence)]

    def _to_cleared(self, node: WatchedNode, evidence: str, returned: bool) -> list[Instruction]:
        if node.registration is not None and node.registration.session != node.session:
            return self._to_alive(node, evidence, returned)
        return [SuspicionCleared(node.name, evidence)]

    def _to_suspect(self, node: WatchedNode, evidence: str, returned: bool) -> list[Instruction]:
        return [NodesSuspected({node.name: evidence})]

    def _to_lost(self, node: WatchedNode, evidence: str, returned: bool) -> list[Instruction]:
        node.lost_session, node.lost_at = node.session, self.now
        node.absent_in.clear()
        node.evidence.clear()
        return [NodesLost(at=self.now, nodes={node.name: evidence})]

    _TRANSITIONS: dict[tuple[str, str], Callable[..., list[Instruction]]] = {  # noqa: RUF012
        ("unknown", "alive"): _to_alive,
        ("alive", "alive"): _to_alive,  # the same processes under a new session
        ("alive", "suspect"): _to_suspect,
        ("alive", "lost"): _to_lost,
        ("suspect", "alive"): _to_cleared,
        ("suspect", "lost"): _to_lost,
        ("lost", "alive"): _to_alive,
    }

    def _node(self, name: str) -> WatchedNode:
        if name not in self.nodes:
            self.nodes[name] = WatchedNode(name=name)
        return self.nodes[name]

    def validate_state(self) -> None:
        """Invariants that hold between stimuli; raises AssertionError with the node's story."""
        for node in self.nodes.values():
            story = "\n".join(map(str, node.story))
            if node.state not in ("unknown", "alive", "suspect", "lost"):
                raise AssertionError(f"{node.name} is in no known state: {node.state}\n{story}")
            if node.state == "lost" and node.lost_at == NEVER:
                raise AssertionError(f"{node.name} is lost since never\n{story}")
            if node.registration is not None and node.registration.id != node.name:
                raise AssertionError(f"{node.name} holds the registration of {node.registration.id}\n{story}")
            if node.heard_at > self.now:
                raise AssertionError(f"{node.name} was heard in the future\n{story}")
