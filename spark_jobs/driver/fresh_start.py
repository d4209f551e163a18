"""Deploying a name again starts from nothing: what an earlier deployment left is put out of the way."""

from __future__ import annotations

import shutil
from contextlib import closing
from datetime import datetime
from pathlib import Path

import structlog

from domain.topology import Topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.only_driver import LOCK
from spark_jobs.state.checkpoint_storage import CheckpointStorage

logger = structlog.get_logger()
MICROS = 1_000_000


def deployed_origin(topology: Topology) -> int | None:
    """Event time of tuple 0 that the deployment fixed, in microseconds; each deployment fixes its own."""
    origins = [source.params.get("origin") for source in topology.sources]
    chosen = next((origin for origin in origins if origin), None)
    return round(datetime.fromisoformat(chosen).timestamp() * MICROS) if chosen else None


def clear_earlier_deployment(*, topology: str, log: EpochLog, outputs: Path, checkpoints: str) -> None:
    """Outputs are kept under another name, since they may still be wanted; what the epoch log says, the
    prepared input beside it and the checkpoints belong to the earlier run alone and go."""
    earlier = outputs / topology
    if earlier.exists():
        stamp = datetime.fromtimestamp(earlier.stat().st_mtime).astimezone().strftime("%Y%m%dT%H%M%S")
        kept = outputs / f"{topology}.until-{stamp}"
        number = 1
        while kept.exists():
            number += 1
            kept = outputs / f"{topology}.until-{stamp}-{number}"
        earlier.rename(kept)
        logger.info("outputs of the earlier deployment kept", path=str(kept))
    with closing(CheckpointStorage(checkpoints)) as storage:
        storage.delete_topology(topology)
    for entry in log.path.parent.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name not in (log.path.name, LOCK):
            entry.unlink(missing_ok=True)
    # The log goes last: while it tells of the earlier run, an interrupted clearing is taken up again.
    log.start_afresh()
