"""What a replication plan is computed from (read side)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import TextField
from django.db.models.functions import Cast

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Missing
from controlplane.topologies.graphs import graph_of_text
from controlplane.topologies.models import FlowRates, Partition, Query, Topology
from controlplane.topologies.rates import EQUAL, EVEN, MEASURED, flows_of, rates_of
from domain.fidelity import Flows
from domain.topology import Topology as Graph
from domain.topology import partition_id

EXPLAINED: dict[str, str] = {
    MEASURED: "each partition's output in the last minute or so, divided as the exchange routed it; for "
    "queries, and for operators without output, their input",
    EVEN: "each partition's output in the last minute or so, divided evenly where it is not measured who "
    "reads it; for queries, and for operators without output, their input",
    EQUAL: "nothing has been measured yet, so all partitions count the same",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A topology with the rates of its partitions in tuples per second. version: its primary key and the
    version of its specification. source: `MEASURED`, `EVEN` or `EQUAL`. priorities: of its queries.
    flows: how partitions divide what they give, as far as that is measured.
    checkpoint: the newest that is complete and in storage, which protects every partition. planner, budget:
    what the topology's policy says."""

    version: tuple[int, int]
    graph: Graph
    rates: Mapping[str, float]
    source: str
    priorities: Mapping[str, int]
    checkpoint: Checkpoint | None
    planner: str
    budget: int | None
    flows: Flows


def measured_load(name: str) -> Measured:
    """Five queries, whatever the topology. Raises `Missing`."""
    found = Topology.objects.filter(name=name).annotate(text=Cast("spec", TextField()))
    row = found.values_list("pk", "version", "text", "replication_planner", "replication_budget").first()
    if row is None:
        raise Missing(f"there is no topology {name!r}")
    pk, version, text, planner, budget = row
    graph = graph_of_text(text)
    columns = Partition.objects.filter(topology=pk).values_list(
        "operator", "index", "rows_in_rate", "rows_out_rate"
    )
    flows = {partition_id(operator, index): (read, given) for operator, index, read, given in columns}
    told = FlowRates.objects.filter(topology=pk).first() or FlowRates()
    rates, source = rates_of(graph, flows, told.given)
    divided, complete = flows_of(graph, told.pairs) if source == MEASURED else ({}, True)
    source = source if complete else EVEN
    stored = Checkpoint.objects.filter(topology=pk, state=CheckpointState.COMPLETED, stored=True)
    newest = stored.defer("acknowledgements").order_by("-epoch").first()
    valued = Query.objects.filter(topology=pk).values_list(
        "partition__operator", "partition__index", "priority"
    )
    priorities = {partition_id(operator, index): priority for operator, index, priority in valued}
    return Measured((pk, version), graph, rates, source, priorities, newest, planner, budget, divided)
