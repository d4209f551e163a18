"""Topologies with cycles for the exact simulation: loops of one operator, of several, side by side within an
operator, one in another, one below another; with partitions above, beside and below them."""

from __future__ import annotations

import random

from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec

# Operator -> parallelism and inputs. A small letter before the name of an input says how it is partitioned: o
# for one_to_one, f for full; a star after it that the stream is a feedback stream.
SHAPES: dict[str, dict[str, tuple[int, str]]] = {
    "itself": {
        "S": (2, ""),
        "B": (2, "fS fB*"),
        "V": (1, "fB"),
        "W": (1, "fS"),
    },
    "two": {
        "S": (2, ""),
        "R": (1, ""),
        "P": (2, "oS"),
        "B": (2, "fP fA*"),
        "A": (2, "oB"),
        "V": (1, "fB"),
        "W": (1, "fR"),
        "J": (1, "fA fW"),
    },
    "aligned": {
        "S": (2, ""),
        "B": (2, "oS oA*"),
        "C": (2, "oB"),
        "A": (2, "oC"),
        "V": (2, "oC"),
        "W": (1, "fV"),
    },
    "nested": {
        "S": (1, ""),
        "B": (1, "fS fD*"),
        "C": (2, "fB fE*"),
        "E": (2, "oC"),
        "D": (1, "fE"),
        "V": (1, "fC"),
        "W": (1, "fS"),
    },
    "below": {
        "S": (2, ""),
        "B": (2, "oS oA*"),
        "A": (2, "oB"),
        "C": (1, "fA fE*"),
        "E": (1, "fC"),
        "V": (1, "fE"),
        "W": (1, "fA"),
    },
}
OUTPUTS = {"A", "V", "W", "J", "D"}


def cyclic_topology(
    dice: random.Random, *, deterministic: bool = True, catch_up_epochs: int = 8, drain_epochs: int = 1_000
) -> Topology:
    """One of the shapes."""
    shape = SHAPES[dice.choice(sorted(SHAPES))]
    operators = tuple(
        OperatorSpec(
            name=name,
            kind="k",
            parallelism=parallelism,
            # In the order in which what was consumed is written down.
            inputs=tuple(sorted(map(_stream, inputs.split()), key=lambda one: one.source)),
            output=name in OUTPUTS,
            deterministic=deterministic,
        )
        for name, (parallelism, inputs) in shape.items()
    )
    return Topology(
        TopologySpec(
            name="t", catch_up_epochs=catch_up_epochs, drain_epochs=drain_epochs, operators=operators
        )
    )


def _stream(text: str) -> InputSpec:
    return InputSpec(
        source=text[1:].removesuffix("*"),
        partitioning="one_to_one" if text[0] == "o" else "full",
        feedback=text.endswith("*"),
    )
