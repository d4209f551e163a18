"""Which partitions further behind replay beside nearer ones."""

from __future__ import annotations

import pytest

from domain.execution.elsewhere import elsewhere_of
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec

TOPOLOGY = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="S", kind="k", parallelism=4),
            OperatorSpec(
                name="P",
                kind="k",
                parallelism=4,
                output=True,
                inputs=(InputSpec(source="S", partitioning="one_to_one"),),
            ),
        ),
    )
)


def reach(**epochs: int) -> dict[str, int]:
    """Of partitions such as `S0`; all others are in the present."""
    behind = {f"{name[0]}[{name[1]}]": epoch for name, epoch in epochs.items()}
    return {partition: behind.get(partition, 100) for partition in TOPOLOGY.partitions}


def homes(**nodes: str) -> dict[str, str]:
    return {f"{name[0]}[{name[1]}]": node for name, node in nodes.items()}


NEAR = {"S0": 50, "S1": 50, "S2": 50}


@pytest.mark.parametrize(
    ("places", "come"),
    [
        ({"S3": "z"}, {20: {"S[3]"}}),
        ({"S3": "x"}, {}),
        ({"S3": "y"}, {20: {"S[3]"}}),
        ({}, {}),
    ],
    ids=["on a node of its own", "on the fullest", "on one with less", "nowhere"],
)
def test_nodes_with_time_take_what_is_further_behind(
    places: dict[str, str], come: dict[int, set[str]]
) -> None:
    there = homes(S0="x", S1="x", S2="y", **places)
    assert elsewhere_of(TOPOLOGY, reach(**NEAR, S3=20), 50, [20], there) == come


def test_a_node_takes_no_more_than_the_fullest_has() -> None:
    there = homes(S0="x", S1="x", S2="y", P2="y", P3="y", S3="z")
    behind = reach(**NEAR, P2=20, P3=20)
    assert elsewhere_of(TOPOLOGY, behind, 50, [20], there) == {20: {"P[2]"}}
    assert elsewhere_of(TOPOLOGY, behind, 50, [20], {**there, "P[3]": "z"}) == {20: {"P[2]", "P[3]"}}


def test_those_of_several_reaches_fill_a_node_together() -> None:
    there = homes(S0="x", S1="x", S2="y", P2="y", P3="y")
    behind = reach(**NEAR, P2=30, P3=20)
    assert elsewhere_of(TOPOLOGY, behind, 50, [30, 20], there) == {30: {"P[2]"}}


def test_what_needs_one_that_stays_stays() -> None:
    there = homes(S0="x", S1="x", S2="y", S3="x", P3="y")
    assert elsewhere_of(TOPOLOGY, reach(**NEAR, S3=20, P3=20), 50, [20], there) == {}
    assert elsewhere_of(TOPOLOGY, reach(**NEAR, P3=20), 50, [20], there) == {20: {"P[3]"}}
