"""Plans in ZooKeeper of another database: one that was lost, or that of another installation."""

from __future__ import annotations

import structlog

from controlplane.topologies.former import foreign_note, former_uncleared
from controlplane.topologies.installation import installation_id
from controlplane.topologies.problems import problem_record
from coordination.paths import Paths
from domain.messages import Plan, ProblemReport

log = structlog.get_logger(__name__)

WHAT = (
    "Plan {generation} there is of another database ({other}; this one is {ours}): either the database was "
    "lost and begun anew, or two installations use the same ZooKeeper. Nothing of this topology is published "
    "or started."
)
HINT = (
    "If the database was lost, restore its backup, and the topology goes on. If there is none, undeploy this "
    "topology and delete it: that removes what ZooKeeper and this host have of the earlier one, and its "
    "outputs if you choose so; then create it again. If another installation works there, give this one "
    "another RESURGE_ZOOKEEPER."
)


def foreign_refuse(name: str, found: Plan) -> None:
    """Publish nothing over this plan, and start nothing under the name, until an operator has deleted the
    topology that has it here."""
    former = former_uncleared(name)
    if former is not None and former.foreign:
        return
    log.error("plan of another database refused", topology=name, generation=found.generation)
    other = found.installation or "of a version that named none"
    problem_record(
        report=ProblemReport(
            topology=name,
            where=f"ZooKeeper {Paths.plan(name)}",
            what=WHAT.format(generation=found.generation, other=other, ours=installation_id()),
            hint=HINT,
        )
    )
    # Last, so that an interrupted refusal is told by the next one.
    foreign_note(name=name, generation=found.generation)
