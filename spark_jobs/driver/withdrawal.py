"""Removing the stored data of a topology that was deleted."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from host.environment import Environment
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError, epoch_log_directory
from spark_jobs.driver.fresh_start import clear_earlier_deployment


def withdraw(settings: Environment, topology: str, *, keep_outputs: bool) -> None:
    """Remove outputs (or keep them under another name), checkpoints, input and epoch log of a topology.

    The log goes on counting drivers, since nodes may still have state of this topology. Call it with the lock
    of `only_driver`; after an error, call it again.
    """
    outputs = Path(settings.outputs)
    if not keep_outputs and (outputs / topology).exists():
        shutil.rmtree(outputs / topology)
    with closing(_log(epoch_log_directory(settings.home, topology) / "epochs.log")) as log:
        clear_earlier_deployment(
            topology=topology, log=log, outputs=outputs, checkpoints=settings.checkpoints
        )
    shutil.rmtree(settings.home / "spark" / topology, ignore_errors=True)


def _log(path: Path) -> EpochLog:
    """A damaged log does not keep what it belongs to from being removed."""
    try:
        return EpochLog(path)
    except EpochLogError:
        path.unlink()
        return EpochLog(path)
