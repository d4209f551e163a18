"""In which stage each partition runs."""

from __future__ import annotations

from domain.execution.job import placed_levels
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec

PAIRS = Topology(
    TopologySpec(
        name="t",
        operators=(
            OperatorSpec(name="S", kind="k", parallelism=3),
            OperatorSpec(
                name="A", kind="k", parallelism=3, inputs=(InputSpec(source="S", partitioning="one_to_one"),)
            ),
            OperatorSpec(name="B", kind="k", inputs=(InputSpec(source="A"),), output=True),
        ),
    )
)


def levels(**homes: str) -> dict[str, int]:
    return placed_levels(PAIRS, {f"{name[0]}[{name[1]}]": node for name, node in homes.items()})


def test_pairs_on_one_node_share_a_level() -> None:
    found = levels(S0="x", S1="y", S2="z", A0="x", A1="y", A2="z", B0="x")
    assert found == {"S[0]": 0, "S[1]": 0, "S[2]": 0, "A[0]": 0, "A[1]": 0, "A[2]": 0, "B[0]": 1}


def test_a_pair_that_was_torn_apart_delays_only_itself() -> None:
    """All that reads from it waits all the same."""
    found = levels(S0="x", S1="y", S2="z", A0="x", A1="z", A2="z", B0="x")
    assert found == {"S[0]": 0, "S[1]": 0, "S[2]": 0, "A[0]": 0, "A[1]": 1, "A[2]": 0, "B[0]": 2}


def test_what_runs_nowhere_adds_no_level() -> None:
    assert levels(S0="x", A0="x", B0="x")["B[0]"] == 1
    assert levels(S0="x", A0="x", A1="x", B0="x")["B[0]"] == 2


def test_an_exchange_comes_after_all_that_feed_it() -> None:
    both = Topology(
        TopologySpec(
            name="t",
            operators=(
                OperatorSpec(name="S", kind="k", parallelism=2),
                OperatorSpec(name="A", kind="k", parallelism=2, inputs=(InputSpec(source="S"),)),
                OperatorSpec(
                    name="B",
                    kind="k",
                    parallelism=2,
                    inputs=(InputSpec(source="S", partitioning="one_to_one"), InputSpec(source="A")),
                    output=True,
                ),
            ),
        )
    )
    assert placed_levels(both, dict.fromkeys(both.partitions, "x")) == {
        "S[0]": 0,
        "S[1]": 0,
        "A[0]": 1,
        "A[1]": 1,
        "B[0]": 2,
        "B[1]": 2,
    }
