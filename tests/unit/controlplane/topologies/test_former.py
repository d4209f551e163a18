"""A name that a deleted topology had: generations go on, and nothing begins before the old data is gone."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events.models import AuditEntry
from controlplane.lifecycle.topologies import topology_deploy, topology_undeploy
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Outputs, TopologyStatus
from controlplane.topologies.former import former_cleared, former_uncleared, formers_to_clear
from controlplane.topologies.models import FormerTopology, Topology
from controlplane.topologies.services import topology_create, topology_delete
from controlplane.topologies.telemetry import driver_status_apply, topology_stopped
from tests.unit.controlplane.specs import BY, checkpoint_report, driver_status, spec_of
from workers.launcher.launcher import wanted_drivers


def run_and_delete(outputs: Outputs = Outputs.KEEP) -> int:
    """Deploy, undeploy and delete `counts`; returns the generation that it had reached."""
    topology_deploy(name="counts", **BY)
    topology_undeploy(name="counts", **BY)
    topology_stopped(name="counts")
    generation = Topology.objects.get().generation
    topology_delete(name="counts", outputs=outputs, **BY)
    return generation


def test_a_new_topology_of_the_name_goes_on_counting(topology: Topology, nodes: list[Node]) -> None:
    reached = [run_and_delete()]
    topology_create(spec=spec_of(), **BY)
    reached.append(run_and_delete())
    topology_create(spec=spec_of(), **BY)
    topology_deploy(name="counts", **BY)
    again = Topology.objects.get()
    assert 0 < reached[0] < reached[1] < again.generation
    assert again.plans.get().generation == again.generation


@pytest.mark.parametrize("state", ["stopped", "failed", "completed"])
def test_what_is_still_said_of_the_former_topology_is_void(topology: Topology, state: Any) -> None:
    topology.generation = run_and_delete()
    topology_create(spec=spec_of(), **BY)
    driver_status_apply(status=driver_status(topology, state))
    checkpoint_apply(report=checkpoint_report(topology))
    again = Topology.objects.get()
    assert (again.status, again.committed_epoch) == (TopologyStatus.DRAFT, 0)
    assert not Checkpoint.objects.exists()


def test_other_names_begin_at_the_beginning(topology: Topology, nodes: list[Node]) -> None:
    run_and_delete()
    topology_create(spec=spec_of(name="sums"), **BY)
    assert Topology.objects.get().generation == 0


@pytest.mark.parametrize("outputs", Outputs)
def test_what_becomes_of_outputs_is_kept_and_audited(
    topology: Topology, nodes: list[Node], outputs: Outputs
) -> None:
    run_and_delete(outputs)
    (former,) = formers_to_clear()
    assert (former.name, former.outputs) == ("counts", outputs)
    entry = AuditEntry.objects.get(action="topology.delete")
    assert entry.before is not None
    assert (entry.before["outputs"], entry.before["name"]) == (outputs, "counts")


def test_no_driver_is_wanted_before_the_name_is_clear(topology: Topology, nodes: list[Node]) -> None:
    run_and_delete()
    topology_create(spec=spec_of(), **BY)
    topology_deploy(name="counts", **BY)
    assert wanted_drivers() == []
    former_cleared(name="counts", at=timezone.now())
    assert [one.topology for one in wanted_drivers()] == ["counts"]


def test_a_name_that_is_deleted_again_is_to_be_cleared_again(topology: Topology, nodes: list[Node]) -> None:
    run_and_delete(Outputs.REMOVE)
    former_cleared(name="counts", at=timezone.now())
    assert former_uncleared("counts") is None
    topology_create(spec=spec_of(), **BY)
    topology_delete(name="counts", **BY)
    former = former_uncleared("counts")
    assert former is not None
    assert (former.outputs, FormerTopology.objects.count()) == (Outputs.KEEP, 1)
