"""Which sink a specification names."""

from __future__ import annotations

from pathlib import Path

from domain.topology.spec import TopologySpec
from spark_jobs.sinks.base import Sink
from spark_jobs.sinks.parquet_sink import ParquetSink


def sink_create(spec: TopologySpec, outputs: str | Path, *, force: bool = True) -> Sink:
    """The sink of a topology; the same in the driver and in every task. outputs: where files go. force: as
    for `DurableBatch`."""
    return ParquetSink(
        Path(outputs),
        spec.name,
        spec.sink,
        operators=[operator.name for operator in spec.operators if operator.output],
        epoch_interval=spec.epoch_interval,
        force=force,
    )
