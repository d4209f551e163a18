"""What a look changes of the replicas that there are while something is being recovered."""

from __future__ import annotations

from domain.replication.adapting import Target
from domain.replication.looking import Kept, as_room_permits
from domain.replication.placing import ReplicaNode, Replicas

HOMES = {"A[0]": "n1", "B[0]": "n1", "C[0]": "n2"}
COSTS = {"A[0]": 20.0, "B[0]": 20.0, "C[0]": 20.0}


def looked(
    free: dict[str, float], *, deployed: int = 3, homes: dict[str, str] | None = None
) -> dict[str, str]:
    """The replicas that stay, of A and B on n3 and C on n4; B is worth most, then A."""
    before = Kept(
        replicas=Replicas(assignment={"A[0]": "n3", "B[0]": "n3", "C[0]": "n4"}),
        target=Target(("B[0]", "A[0]", "C[0]")),
        deployed=3,
    )
    found = as_room_permits(
        before,
        deployed=deployed,
        homes=HOMES if homes is None else homes,
        nodes=[ReplicaNode(name=name, free=room) for name, room in free.items()],
        costs=COSTS,
        why="an incident",
    )
    assert (found.target, found.note, found.deployed) == (before.target, "an incident", deployed)
    return dict(found.replicas.assignment)


def test_replicas_stay_where_they_have_room_and_go_with_lost_nodes() -> None:
    room = dict.fromkeys(("n1", "n2", "n3", "n4"), 40.0)
    assert looked(room) == {"A[0]": "n3", "B[0]": "n3", "C[0]": "n4"}
    del room["n4"]
    assert looked(room) == {"A[0]": "n3", "B[0]": "n3"}


def test_the_least_important_ones_make_room_for_partitions() -> None:
    assert looked({"n1": 0.0, "n2": 0.0, "n3": 25.0, "n4": -5.0}) == {"B[0]": "n3"}
    assert looked({"n1": 0.0, "n2": 0.0, "n3": 19.0, "n4": 20.0}) == {"C[0]": "n4"}


def test_what_may_take_over_stays_without_room() -> None:
    assert looked({"n2": 0.0, "n3": 25.0, "n4": 0.0}) == {"A[0]": "n3", "B[0]": "n3"}, "n1 is lost"
    assert looked({"n1": 0.0, "n3": 0.0, "n4": 0.0}, homes={"A[0]": "n1"}) == {"B[0]": "n3", "C[0]": "n4"}


def test_replicas_of_an_earlier_deployment_are_of_no_use() -> None:
    assert looked(dict.fromkeys(("n1", "n2", "n3", "n4"), 40.0), deployed=9) == {}
