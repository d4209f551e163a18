"""`plan_move`, `node_move` and `request_move`: every pair of states, and no other code writes states."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from django.utils import timezone

from controlplane.incidents.choices import PLAN_CURRENT, PlanKind, PlanState
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.plan_states import PLAN_EVENTS, PLAN_MOVES, plan_move
from controlplane.lifecycle.nodes import HEARTBEAT_FIELDS
from controlplane.nodes.choices import NODE_REQUEST_OPEN, NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.states import NODE_MOVES, REQUEST_MOVES, node_move, request_move
from controlplane.topologies.models import Topology
from host.environment import ROOT

NOW = timezone.now()


# ---- every pair ----------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("to", NodeState)
@pytest.mark.parametrize("before", NodeState)
def test_node_move(before: NodeState, to: NodeState) -> None:
    node = Node.objects.create(name="node-1", state=before)
    allowed = to in NODE_MOVES[before]
    assert node_move(node, to) is allowed
    assert node.state == (to if allowed else before)
    assert Node.objects.get().state == node.state


@pytest.mark.django_db
@pytest.mark.parametrize("to", NodeRequestState)
@pytest.mark.parametrize("before", NodeRequestState)
def test_request_move(before: NodeRequestState, to: NodeRequestState) -> None:
    request = NodeRequest.objects.create(key="k", node_name="node-1", requested_at=NOW, state=before)
    allowed = to in REQUEST_MOVES[before]
    assert request_move(request, to, at=NOW, error="why") is allowed
    stored = NodeRequest.objects.get()
    assert stored.state == request.state == (to if allowed else before)
    assert stored.error == ("why" if allowed else "")
    assert (stored.started_at == NOW) is (allowed and to is NodeRequestState.STARTED)
    assert (stored.joined_at == NOW) is (allowed and to is NodeRequestState.JOINED)


@pytest.mark.django_db
@pytest.mark.parametrize("to", PlanState)
@pytest.mark.parametrize("before", PlanState)
def test_plan_move(before: PlanState, to: PlanState) -> None:
    topology = Topology.objects.create(name="counts")
    plan = RecoveryPlan.objects.create(topology=topology, generation=1, kind=PlanKind.DEPLOY, state=before)
    allowed = to in PLAN_MOVES[before]
    assert plan_move(plan, to, at=NOW) is allowed
    stored = RecoveryPlan.objects.get()
    assert stored.state == plan.state == (to if allowed else before)
    moments = {
        PlanState.PUBLISHED: stored.published_at,
        PlanState.APPLIED: stored.applied_at,
        PlanState.VERIFIED: stored.verified_at,
    }
    assert {state for state, at in moments.items() if at == NOW} == (
        {to} & moments.keys() if allowed else set()
    )


def test_every_state_is_entered_and_ends_agree_with_the_sets() -> None:
    for moves, first in (
        (NODE_MOVES, NodeState.REQUESTED),
        (REQUEST_MOVES, NodeRequestState.PENDING),
        (PLAN_MOVES, PlanState.PLANNED),
    ):
        states = set(type(first))
        assert set(moves) == states
        assert {first} | {to for allowed in moves.values() for to in allowed} == states
        assert not any(state in allowed for state, allowed in moves.items())
    assert {state for state, allowed in PLAN_MOVES.items() if allowed} == PLAN_CURRENT
    assert {state for state, allowed in REQUEST_MOVES.items() if allowed} == NODE_REQUEST_OPEN
    assert set(PLAN_EVENTS) == set(PlanState) - {PlanState.PLANNED}


@pytest.mark.django_db
def test_of_two_processes_one_moves_a_row() -> None:
    Node.objects.create(name="node-1", state=NodeState.DRAINING)
    mine, other = Node.objects.get(), Node.objects.get()
    assert node_move(other, NodeState.LOST)
    assert not node_move(mine, NodeState.LEFT), "what this process read is out of date"
    assert Node.objects.get().state == NodeState.LOST


# ---- no other writer -----------------------------------------------------------------------------

OWNERS = {"controlplane/nodes/states.py", "controlplane/incidents/plan_states.py"}
# Other things with a `state`: where it is written, and of what. Rows of plans, nodes and requests must not
# appear here; only the functions above write their states.
OTHERS = {
    ("controlplane/alerts/evaluation.py", "rows_update(Alert)"),
    ("controlplane/checkpoints/services.py", "checkpoint.state"),
    ("controlplane/events/operations.py", "current.state"),
    ("controlplane/incidents/applying.py", "self.incident.state"),
    ("controlplane/lifecycle/savepoints.py", "savepoint.state"),
    ("controlplane/lifecycle/savepoints.py", "earlier.state"),
    ("controlplane/lifecycle/savepoints.py", "making.update"),
    ("controlplane/lifecycle/saving.py", "savepoint.state"),
    ("controlplane/topologies/failures.py", "partition.state"),
    ("controlplane/topologies/failures.py", "rows_update(Partition)"),
    ("controlplane/topologies/failures.py", "rows_update(Query)"),
    ("controlplane/topologies/failures.py", "rows_update(Topology)"),
    ("controlplane/topologies/rows.py", "partition.state"),
    ("controlplane/topologies/rows.py", "rows_update(Partition)"),
    ("controlplane/topologies/rows.py", "rows_update(Query)"),  # a query has a status
    ("controlplane/lifecycle/nodes.py", "rows_update(Node)"),  # the statistics of a heartbeat
    ("controlplane/topologies/reports.py", "partition.state"),
    ("controlplane/webhooks/deliveries.py", "delivery.state"),
    ("controlplane/webhooks/deliveries.py", "Delivery.objects.update"),
    ("controlplane/webhooks/sending.py", "delivery.state"),
    ("workers/providers/cgroups.py", "self.state"),
}


def _writes(tree: ast.AST) -> Iterator[str]:
    """What in a module writes something called `state`: assignments to an attribute, `setattr`, and calls of
    a model's manager or of a bulk update that name it."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            for part in ast.walk(target):
                if (
                    isinstance(part, ast.Attribute)
                    and part.attr == "state"
                    and isinstance(part.ctx, ast.Store)
                ):
                    yield ast.unparse(part)
        if isinstance(node, ast.Call):
            yield from _call_writes(node)


def _call_writes(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    named = {keyword.arg for keyword in call.keywords} - {None}
    words = {
        part.value
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        for part in ast.walk(argument)
        if isinstance(part, ast.Constant)
    }
    if name == "setattr" and "state" in words:
        yield ast.unparse(call)
    elif name in ("bulk_update", "rows_update") and ("state" in words or _columns_named(call)):
        yield f"{name}({ast.unparse(call.args[0])})"
    elif name == "update" and "state" in named:
        yield f"{_origin(call.func)}.update"
    elif name in ("create", "get_or_create", "update_or_create") and ("state" in named or "state" in words):
        yield f"{_origin(call.func)}.{name}"
    elif name in ("Node", "NodeRequest", "RecoveryPlan") and "state" in named:
        yield f"{name}()"


def _columns_named(call: ast.Call) -> bool:
    """Whether the columns of a bulk update have a name, so that the call does not tell which they are."""
    return any(isinstance(argument, ast.Name) for argument in call.args[1:2])


def _origin(expression: ast.expr) -> str:
    """`Delivery.objects` of `Delivery.objects.filter(...).update`."""
    while isinstance(expression, ast.Attribute | ast.Call):
        inner = expression.func if isinstance(expression, ast.Call) else expression.value
        if isinstance(expression, ast.Attribute) and expression.attr == "objects":
            return ast.unparse(expression)
        expression = inner
    return ast.unparse(expression)


def test_nothing_else_writes_these_states() -> None:
    found: set[tuple[str, str]] = set()
    for package in ("controlplane", "workers", "dashboard", "supervision"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if "/migrations/" not in place and place not in OWNERS:
                found |= {(place, what) for what in _writes(ast.parse(path.read_text()))}
    assert found == OTHERS
    assert "state" not in HEARTBEAT_FIELDS


@pytest.mark.parametrize(
    "code",
    [
        "node.state = NodeState.LOST",
        "node.state, node.pid = NodeState.LOST, None",
        "setattr(node, 'state', 'lost')",
        "Node.objects.filter(name='node-1').update(state='lost')",
        "Node.objects.update_or_create(name='node-1', defaults={'state': 'lost'})",
        "joined.update(state='joined')",
        "RecoveryPlan.objects.create(generation=1, state='published')",
        "RecoveryPlan(generation=1, state='published')",
        "Node.objects.bulk_update(nodes, ['state'])",
        "rows_update(Node, ('state',), rows)",
    ],
)
def test_every_way_of_writing_a_state_is_seen(code: str) -> None:
    assert list(_writes(ast.parse(code)))
