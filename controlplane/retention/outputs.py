"""What the outputs of each topology take, beside the bounds of its sink. The sink keeps to them itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from controlplane.topologies.models import Topology
from domain.topology.spec import ParquetSinkSpec

DAY, MEGABYTES = 86_400.0, 1_000


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Of one topology, on this host. `keep_s`, `keep_mb`: the bounds of its sink, 0 for none. `oldest`: when
    the oldest file was written, in Unix seconds; None if there is none."""

    topology: str
    keep_s: float
    keep_mb: int
    files: int
    bytes: int
    oldest: float | None


def output_files(root: Path) -> list[OutputFiles]:
    """Of all topologies, by name."""
    found = []
    for name, given in Topology.objects.order_by("name").values_list("name", "spec__sink"):
        sink = msgspec.convert(given or {"kind": "parquet"}, ParquetSinkSpec)
        bounded = sink.compact_s > 0
        files = list(_files(root / name))
        found.append(
            OutputFiles(
                topology=name,
                keep_s=sink.keep_days * DAY if bounded else 0.0,
                keep_mb=round(sink.keep_gb * MEGABYTES) if bounded else 0,
                files=len(files),
                bytes=sum(size for size, _ in files),
                oldest=min((at for _, at in files), default=None),
            )
        )
    return found


def _files(directory: Path) -> Iterator[tuple[int, float]]:
    """Bytes and moment of each file below a directory; those that are removed meanwhile are left out."""
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                status = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            yield status.st_size, status.st_mtime
