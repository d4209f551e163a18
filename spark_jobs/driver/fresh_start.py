"""Deploying a name again starts from nothing: what an earlier deployment left is put out of the way."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

import structlog

from domain.topology import Topology
from spark_jobs.state.checkpoint_storage import CheckpointStorage

log = structlog.get_logger()
MICROS = 1_000_000


def deployed_origin(topology: Topology) -> int | None:
    """Event time of tuple 0 that the deployment fixed, in microseconds; each deployment fixes its own."""
    origins = [source.params.get("origin") for source in topology.sources]
    chosen = next((origin for origin in origins if origin), None)
    return round(datetime.fromisoformat(chosen).timestamp() * MICROS) if chosen else None


def clear_earlier_deployment(*, topology: str, directory: Path, outputs: Path, checkpoints: str) -> None:
    """Outputs are kept under another name, since they may still be wanted; the epoch log, the prepared
    input and the checkpoints belong to the earlier run alone and are deleted."""
    earlier = outputs / topology
    if earlier.exists():
        stamp = datetime.fromtimestamp(earlier.stat().st_mtime).astimezone().strftime("%Y%m%dT%H%M%S")
        kept = outputs / f"{topology}.until-{stamp}"
        number = 1
        while kept.exists():
            number += 1
            kept = outputs / f"{topology}.until-{stamp}-{number}"
        earlier.rename(kept)
        log.info("outputs of the earlier deployment kept", path=str(kept))
    CheckpointStorage(checkpoints).delete_topology(topology)
    # The log goes last: while it is there, an interrupted clearing is taken up again.
    shutil.rmtree(directory, ignore_errors=True)
