"""What plans are made for in Figure 12: output fidelity, and what it is compared with.

Each is a `FidelityModel`, so that the same planner plans for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec
import numpy as np

from benchmarks.replication.one_process import Measured
from domain.replication import FidelityModel
from domain.topology import Topology, split_partition

OF, IC, TUPLES, CARRIED = "OF", "IC", "tuples", "carried"


def fidelity_model(topology: Topology, measured: Measured) -> FidelityModel:
    """Output fidelity by the rates that were measured, without priorities."""
    return FidelityModel(topology, measured.rates, "plain", flows=measured.flows)


def without_joins(topology: Topology) -> Topology:
    """The topology as internal completeness sees it: every operator goes on with what is left of any
    input."""
    operators = (msgspec.structs.replace(one, correlated=False) for one in topology.operators)
    return Topology(msgspec.structs.replace(topology.spec, operators=tuple(operators)))


def _completeness(topology: Topology, measured: Measured) -> FidelityModel:
    return fidelity_model(without_joins(topology), measured)


def _all_tuples(topology: Topology, measured: Measured) -> FidelityModel:
    """Its fidelity is the `completeness` of the topology: every partition counts, by what it reads."""
    spec = without_joins(topology).spec
    operators = (msgspec.structs.replace(one, output=True) for one in spec.operators)
    model = fidelity_model(Topology(msgspec.structs.replace(spec, operators=tuple(operators))), measured)
    reads = np.concatenate([step.reads for step in model.steps])
    model.weights = model.plain_weights = reads / reads.sum()
    return model


def _carried(topology: Topology, measured: Measured) -> FidelityModel:
    """Output fidelity, but a partition that is no source has the rate that it reads: a row of an aggregate
    counts as the tuples of the sources that it stands for."""
    rates: dict[str, float] = {}
    for partition in topology.partitions:
        _, index = split_partition(partition)
        operator = topology.operator_of(partition)
        rates[partition] = 0.0 if operator.inputs else measured.rates[partition]
        for stream in operator.inputs:
            for source in topology.upstream(partition):
                name, number = split_partition(source)
                if name != stream.source:
                    continue
                targets = topology.targets(stream, operator, number)
                flow = measured.flows.get(source, {}).get(operator.name) or [1.0] * len(targets)
                share = flow[targets.index(index)] / sum(flow) if any(flow) else 1 / len(targets)
                rates[partition] += rates[source] * share
    return FidelityModel(topology, rates, "plain", flows=measured.flows)


OBJECTIVES: Final[dict[str, Callable[[Topology, Measured], FidelityModel]]] = {
    OF: fidelity_model,
    IC: _completeness,
    TUPLES: _all_tuples,
    CARRIED: _carried,
}


def fidelity(model: FidelityModel, plan: Collection[int]) -> float:
    return float(model.fidelity(model.flags([plan]))[0])
