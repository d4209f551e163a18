"""The history of a seeded installation: versions, audit trail, and the parts of checkpoints."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.events.choices import Channel, OperationKind, OperationState
from controlplane.events.models import AuditEntry, Operation
from controlplane.topologies.models import Partition, Topology, TopologyVersion

PAGE, REST, ADMIN, CLI, SYSTEM = Channel.PAGE, Channel.REST, Channel.ADMIN, Channel.CLI, Channel.SYSTEM
ALIVE, DRAINING, UPDATE = {"state": "alive"}, {"state": "draining"}, "kernel update"
PLANNERS = {"planner": "profit_density"}, {"planner": "best_density"}
NO_SPACE = "No space left on device: files/table-5220.arrow (storage file:///srv/checkpoints)"
KEPT, STORED, FAILED, ASKED, RESTORED = 24, 3, 9, 4, 13


def savepoint_write(topology: Topology, now: datetime) -> None:
    """Of `hashtags` one of its version before; that of the other could not be made."""
    whole = topology.name == "hashtags"
    made = Savepoint.objects.create(
        name="before-v2" if whole else "trending-friday",
        key="0123456789abcdef" if whole else "",
        topology=topology.name,
        version=1 if whole else 0,
        epoch=5_130 if whole else 0,
        spec=topology.deployed_spec,
        state="complete" if whole else "failed",
        cause="" if whole else "file:///srv/checkpoints: no room is left on the device",
        size_bytes=7_340_032 if whole else 0,
        requested_by="operator",
        reason="version 2 comes tomorrow" if whole else "the weekly copy",
        ended_at=now - timedelta(minutes=70),
    )
    Savepoint.objects.filter(pk=made.pk).update(created_at=now - timedelta(minutes=71))


def checkpoints_write(topology: Topology, now: datetime) -> None:
    """A checkpoint every ten seconds; one failed, one was requested by a user, one was restored."""
    partitions = list(Partition.objects.filter(topology=topology).select_related("node"))
    for k in range(KEPT):
        started = now - timedelta(seconds=10 * k + 4)
        failed = k == FAILED
        acks = [
            part_of(row, k, failed=failed and i == len(partitions) - 4) for i, row in enumerate(partitions)
        ]
        if failed:
            acks = acks[:-3]  # three had not answered when the fourth one failed
        Checkpoint.objects.create(
            topology=topology,
            epoch=5310 - 10 * k,
            generation=4,
            state="failed" if failed else "completed",
            acknowledged=len(acks),
            total=len(partitions),
            size_bytes=0 if failed else sum(ack["size_bytes"] for ack in acks),
            started_at=started,
            ended_at=started + timedelta(seconds=0.8 + 0.11 * (k % 5)),
            restored_at=started + timedelta(seconds=41) if k == RESTORED else None,
            cause=f"{acks[-1]['partition']} on {acks[-1]['node']}: {acks[-1]['error']}" if failed else "",
            requested_by="admin" if k == ASKED else "",
            stored=k < STORED,
            acknowledgements=acks,
        )


def part_of(row: Partition, k: int, *, failed: bool = False) -> dict[str, Any]:
    """A partition's part of a checkpoint, as its agent acknowledges it; the numbers depend on `k`."""
    size = max(0, row.state_bytes - 1_000 * k)
    return {
        "partition": row.label,
        "node": row.node.name if row.node else "node-1",
        "size_bytes": size,
        "uploaded_bytes": 0 if failed else size // 9 + 240,
        "files": 0 if size == 0 else 3 + row.pk % 5,
        "alignment": round(0.1 + 0.01 * ((row.pk * 3 + k) % 9), 4),
        "waited": round(0.01 * ((row.pk + k) % 4), 4),
        "duration": round(0.02 + 0.003 * ((row.pk * 7 + k) % 40), 4),
        "error": NO_SPACE if failed else "",
    }


def versions_write(topology: Topology, now: datetime) -> None:
    """Two versions, the first with fewer partitions."""
    first = copy.deepcopy(topology.spec)
    first["operators"][0]["parallelism"] = first["operators"][1]["parallelism"] = 2
    first["description"] = "A first attempt"
    steps = [
        (first, "ada", "The fifteen queries of the paper"),
        (topology.spec, "kim", "Twice the tweets since Monday"),
    ]
    for number, (spec, actor, reason) in enumerate(steps, start=1):
        version = TopologyVersion.objects.create(
            topology=topology, number=number, spec=spec, created_by=actor, reason=reason
        )
        TopologyVersion.objects.filter(pk=version.pk).update(created_at=now - timedelta(days=9 - 4 * number))
    topology.version = 2
    topology.save(update_fields=["version"])


def audit_write(now: datetime) -> None:
    """Changes through every channel, more than one page of them."""
    told: list[tuple[float, str, Channel, str, str, Any, Any, str]] = [
        (
            0.2,
            "kim",
            PAGE,
            "query.priority",
            "hashtags",
            {"O14[0]": 4},
            {"O14[0]": 9},
            "sold to two customers",
        ),
        (3, "kim", PAGE, "topology.checkpoint", "hashtags", None, None, "before the kernel update"),
        (26, "ada", REST, "topology.policy", "hashtags", *PLANNERS, "shares count in our graph"),
        (27, "ada", REST, "node.drain", "node-7", None, None, UPDATE),
        (27, "system", SYSTEM, "node.drained", "node-7", ALIVE, DRAINING, UPDATE),
        (55, "ada", CLI, "node.activated", "node-7", DRAINING, ALIVE, "updated"),
        (
            181,
            "system",
            SYSTEM,
            "incident.approve",
            "1",
            None,
            {"proposal": "hashtags-w1-9f2c"},
            "looks right",
        ),
        (1_500, "ada", ADMIN, "account.create", "kim", None, {"role": "operator"}, "new in the team"),
        (2_900, "ada", CLI, "topology.deploy", "hashtags", None, {"version": 2, "generation": 4}, "faster"),
    ]
    told += [
        (
            3_000.0 + 60 * i,
            "nightly",
            Channel.REST,
            "topology.checkpoint",
            "trending",
            None,
            None,
            f"nightly run {70 - i}",
        )
        for i in range(70)
    ]
    for minutes, actor, channel, action, target, before, after, reason in sorted(
        told, key=lambda one: -one[0]
    ):
        entry = AuditEntry.objects.create(
            actor=actor,
            channel=channel,
            action=action,
            target=target,
            before=before,
            after=after,
            reason=reason,
        )
        AuditEntry.objects.filter(pk=entry.pk).update(at=now - timedelta(minutes=minutes))


def experiment_write(now: datetime) -> None:
    """A node that a user failed before."""
    at = now - timedelta(hours=3)
    operation = Operation.objects.create(
        kind=OperationKind.NODE_FAIL,
        target="node-5",
        requested_by="kim",
        reason="game day",
        state=OperationState.SUCCEEDED,
        ended_at=at + timedelta(seconds=1),
    )
    Operation.objects.filter(pk=operation.pk).update(created_at=at)
