"""What ingestion keeps of topologies from report to report."""

from __future__ import annotations

from controlplane.events.choices import Channel
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.topologies.models import Topology
from domain.availability import QueryHealth
from tests.unit.controlplane.incidents.conftest import deployed  # noqa: F401
from tests.unit.controlplane.specs import epoch_report
from workers.ingestion import Availabilities


def test_a_deployment_is_not_measured_by_the_latencies_of_the_one_before(
    deployed: Topology,  # noqa: F811
) -> None:
    availabilities = Availabilities()

    def observed(first: int, latency: float) -> QueryHealth:
        for epoch in range(first, first + 20):
            report = epoch_report(deployed, epoch=epoch, latency=latency)
            verdicts, _ = availabilities.observe(report)
        return verdicts["O1[0]"]

    before = observed(1, 0.8)
    assert (before.baseline, before.available) == (0.8, True)
    Topology.objects.update(desired="stopped", status="stopped")
    availabilities._tracker("counts").query_failed("O1[0]", 121.0)
    topology_deploy(name="counts", actor="ada", reason="slower, but right", channel=Channel.CLI)
    availabilities.look(force=True)
    after = observed(50, 3.0)
    assert (after.baseline, after.relative, after.available) == (3.0, 1.0, True)
