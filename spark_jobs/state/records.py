"""What a checkpoint has besides the states of its partitions: what they are the states of, and how far the
input was read. With it a checkpoint can begin another deployment, also where no epoch log is left."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.execution.job import EpochPlan
from domain.values import Count, Epoch, Generation
from spark_jobs.state.sealed import UNREADABLE, DamagedError


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True):
    """spec: the topology as it ran, with the moment from which its event time counts. version: as in
    `DeployedSpec`, and so is renewed. origin_us: event time of tuple 0, in microseconds since the Unix epoch.
    plan: the epoch `checkpoint`, whose slices end where the next ones begin."""

    topology: str
    deployed: Generation
    checkpoint: Epoch
    version: Count
    spec: dict[str, Any]
    origin_us: int
    plan: EpochPlan
    renewed: list[str] | None = None


_records = msgspec.json.Decoder(CheckpointRecord)


def decode_record(body: bytes, where: str) -> CheckpointRecord:
    """Raises `DamagedError`."""
    try:
        record = _records.decode(body)
    except UNREADABLE as error:
        raise DamagedError(f"{where} is damaged: {error}", where) from error
    if record.plan.epoch != record.checkpoint:
        raise DamagedError(
            f"{where} is of checkpoint {record.checkpoint} and epoch {record.plan.epoch}", where
        )
    return record
