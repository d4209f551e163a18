"""Going on from the newest checkpoint, or beginning with a savepoint, where a topology is deployed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.checkpoints.choices import SavepointState
from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.checkpoints.representation import checkpoint_change
from controlplane.checkpoints.selectors import savepoint_get
from controlplane.errors import Conflict, Invalid
from controlplane.events.representation import Change
from controlplane.lifecycle.origins import origins_keep
from controlplane.topologies.choices import Guarantee, TopologyStatus
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.permitted import NO_CHECKPOINT
from controlplane.topologies.validation import spec_validate
from controlplane.wording import some_of
from domain.topology import FieldProblem
from domain.topology import Topology as Graph
from domain.topology.continuation import Continuation, continuation
from domain.topology.copies import operator_of

NOTHING = Continuation()


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the newest version would go on with. refusal: why it cannot, in a sentence; empty where it can.
    checkpoint: None where there is none; savepoint: instead of one. graph: the version, with event time as it
    has counted so far."""

    refusal: str = ""
    checkpoint: Checkpoint | None = None
    savepoint: Savepoint | None = None
    graph: Graph | None = None
    found: Continuation = NOTHING

    @property
    def problems(self) -> Sequence[FieldProblem]:
        """What in the specification does not fit the checkpoint."""
        return self.found.problems


def outlook_find(topology: Topology) -> Outlook:
    """What deploying the newest version from the newest checkpoint would mean. Raises `Invalid` for a version
    that does not validate here any more."""
    if refusal := _nothing_there(topology):
        return Outlook(refusal)
    checkpoint = Checkpoint.objects.filter(topology=topology, stored=True).order_by("-epoch").first()
    if checkpoint is None:
        return Outlook(f"no checkpoint of topology {topology.name!r} is in storage")
    graph, found = _fit(topology, topology.deployed_spec)
    return Outlook(_refusal(topology, checkpoint.epoch, found), checkpoint, None, graph, found)


def savepoint_outlook(topology: Topology, savepoint: Savepoint) -> Outlook:
    """What deploying the newest version with a savepoint would mean. Raises `Invalid` for a version that does
    not validate here any more."""
    if savepoint.state != SavepointState.COMPLETE:
        state = SavepointState(savepoint.state).label.lower()
        return Outlook(f"savepoint {savepoint.name!r} is {state}", savepoint=savepoint)
    graph, found = _fit(topology, savepoint.spec)
    refusal = _without_state(topology, "savepoint")
    if found.problems:
        what = f"version {topology.version} cannot begin with savepoint {savepoint.name!r}"
        refusal = f"{what}: {found.problems[0]}"
    return Outlook(refusal, None, savepoint, graph, found)


def _fit(topology: Topology, before: dict[str, Any]) -> tuple[Graph, Continuation]:
    """The newest version, with event time as it counted in the specification `before`, and what becomes of
    its state. Raises `Invalid`."""
    from spark_jobs.operators.catalogue import catalogue

    version = topology.versions.order_by("-number").first()
    spec = version.spec if version is not None else topology.spec
    graph = spec_validate(origins_keep(spec, before))
    return graph, continuation(graph_of(before), graph, catalogue)


def continuation_begin(topology: Topology) -> tuple[Graph, list[Change]]:
    """Have a topology that is to be deployed go on from its newest checkpoint. Returns the graph that is to
    run, and the checkpoints that are of no use to it; the caller saves the topology. Raises `Conflict`, or
    `Invalid` with the fields of the specification that do not fit."""
    outlook = outlook_find(topology)
    if outlook.problems:
        raise Invalid.from_problems(outlook.problems)
    if outlook.refusal or outlook.checkpoint is None or outlook.graph is None:
        raise Conflict(outlook.refusal)
    found, epoch = outlook.found, outlook.checkpoint.epoch
    topology.continues = {"checkpoint": epoch, **_beginning(topology, outlook.graph, found, epoch)}
    renewed = {*topology.renewed, *found.changed}
    topology.renewed = [one.name for one in outlook.graph.operators if one.name in renewed]
    if found.same_rows:
        return outlook.graph, []
    topology.computation = topology.version
    older = list(Checkpoint.objects.filter(topology=topology, stored=True, epoch__lt=epoch))
    for checkpoint in older:
        checkpoint.stored = False
        checkpoint.save(update_fields=["stored"])
    return outlook.graph, [checkpoint_change(one, topology=topology.name) for one in older]


def _beginning(topology: Topology, graph: Graph, found: Continuation, epoch: int) -> dict[str, list[str]]:
    """Which partitions begin without state, and which operators with one that is divided anew. A version may
    have been undeployed before its driver had begun: then what holds for it is still to be done."""
    before: Mapping[str, Any] = topology.continues or {}
    if before.get("checkpoint") != epoch:
        before = {}
    lacking = {*found.added, *before.get("stateless", ())}
    without = {operator_of(one) for one in lacking if operator_of(one) in found.divided}
    stateless = [one for one in graph.partitions if one in lacking or operator_of(one) in without]
    divided = {*found.divided, *before.get("divided", ())}.difference(map(operator_of, stateless))
    return {"stateless": stateless, "divided": [one.name for one in graph.operators if one.name in divided]}


def savepoint_begin(topology: Topology, name: str) -> Graph:
    """Have a topology that is to be deployed begin with a savepoint, in a deployment of its own. Returns the
    graph that is to run; the caller saves the topology. Raises `Missing`, `Conflict`, or `Invalid` with the
    fields of the specification that do not fit."""
    savepoint = savepoint_get(name, lock=True)
    outlook = savepoint_outlook(topology, savepoint)
    if outlook.problems:
        raise Invalid.from_problems(outlook.problems)
    if outlook.refusal or outlook.graph is None:
        raise Conflict(outlook.refusal)
    graph, epoch = outlook.graph, savepoint.epoch
    topology.continues = {
        "checkpoint": epoch,
        "stateless": list(outlook.found.added),
        "divided": list(outlook.found.divided),
        "savepoint": savepoint.key,
    }
    topology.head_epoch = topology.committed_epoch = topology.checkpoint_epoch = epoch
    # Rows of earlier epochs are in the outputs of another deployment.
    topology.computation = topology.version
    renewed = {*(savepoint.renewed or ()), *outlook.found.changed}
    known = savepoint.renewed is not None
    topology.renewed = [one.name for one in graph.operators if one.name in renewed or not known]
    return graph


def continuation_told(topology: Topology, savepoint: str = "") -> dict[str, Any]:
    """The outlook as REST tells it: with the newest checkpoint, or with a savepoint. Raises `Missing`."""
    chosen = savepoint_get(savepoint) if savepoint else None
    try:
        outlook = savepoint_outlook(topology, chosen) if chosen else outlook_find(topology)
    except Invalid as error:
        outlook = Outlook(f"version {topology.version} cannot run here: {error}")
    source = outlook.savepoint or outlook.checkpoint
    return {
        "possible": not outlook.refusal,
        "refusal": outlook.refusal,
        "problems": [{"path": one.path, "message": one.message} for one in outlook.problems],
        "checkpoint": source and source.epoch,
        "completed_at": source and source.ended_at,
        "size_bytes": source and source.size_bytes,
        "committed_epoch": chosen.epoch if chosen else topology.committed_epoch,
        "added": list(outlook.found.added),
        "removed": list(outlook.found.removed),
        "divided": list(outlook.found.divided),
        "changed": list(outlook.found.changed),
    }


def _without_state(topology: Topology, source: str) -> str:
    """Why the newest version begins without the state of a checkpoint or savepoint; empty if it need not."""
    if topology.guarantee != Guarantee.BOUNDED:
        return ""
    return f"version {topology.version} cannot begin with a {source}: {NO_CHECKPOINT}"


def _nothing_there(topology: Topology) -> str:
    """Why no version could go on."""
    name = topology.name
    if refusal := _without_state(topology, "checkpoint"):
        return refusal
    if topology.deployed_at is None:
        return f"topology {name!r} has never been deployed: there is no checkpoint to go on from"
    if topology.deployed_spec is None:
        return (
            f"topology {name!r} was deployed by an earlier version of Resurge, which did not note of which "
            "specification its checkpoints are"
        )
    if topology.status == TopologyStatus.COMPLETED:
        return f"topology {name!r} has run to the end of its input: nothing is left to go on with"
    return ""


def _refusal(topology: Topology, checkpoint: int, found: Continuation) -> str:
    if found.problems:
        return f"version {topology.version} cannot go on from checkpoint {checkpoint}: {found.problems[0]}"
    if found.same_rows or topology.committed_epoch <= checkpoint:
        return ""
    return (
        f"outputs are final up to epoch {topology.committed_epoch}, and version {topology.version}, which "
        f"computes otherwise ({some_of(found.changed)}), would go on from checkpoint "
        f"{checkpoint}: rows in between would change. Deploy the version before it, to go on, and undeploy "
        "it when it is well: then it leaves a checkpoint of all that is final"
    )
