"""What of a topology's outputs counts, for those who read them: `<outputs>/<topology>/committed.json`.

    {"topology": "hashtags", "deployed": 1, "epoch": 1234, "removed": 0,
     "spans": [{"first": 1, "last": 300, "until": {"O0": 1700000000000000}}]}

Of each partition of an operator these files below `deployed=<deployed>` count:
`epochs=<first>-<last>/part.parquet` for each span (several epochs in one file), and `epoch=<e>/part.parquet`
for the epochs after the last span, and after `removed`, up to `epoch`; where there are no rows there is no
file. Everything else is not committed yet, has been replaced, or was written by a task of an earlier
deployment that went on. A reader that goes by this file sees each row once, whatever is written or compacted
meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

COMMITTED: Final = "committed.json"
SPAN_FILE: Final = "part.parquet"
ATTEMPT: Final = re.compile(r"part(?:-(\d+))?\.(parquet|empty)")
"""Files of an epoch; with operators that are not deterministic they are named after the attempt."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Epochs whose rows are in one file for each partition. until: by operator, the last `window_end` among
    them, in microseconds since the Unix epoch."""

    first: int
    last: int
    until: dict[str, int] = {}


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """deployed: generation of the plan that deployed the topology. epoch: the newest that counts. removed:
    output of epochs up to this one was removed because of its age or size; removed_until: their `until`.
    spans: ascending, without gaps."""

    topology: str
    deployed: int
    epoch: int
    removed: int = 0
    removed_until: dict[str, int] = {}
    spans: list[Span] = []

    @property
    def tail(self) -> int:
        """The last epoch that is in a span or removed; those after it have files of their own."""
        return self.spans[-1].last if self.spans else self.removed


_decoder = msgspec.json.Decoder(Committed)
"""Made here, before there are threads (docs/decisions/0013)."""


class CommittedError(ValueError):
    """The file cannot be read; the message names it."""


def committed_read(directory: Path) -> Committed | None:
    """What `committed.json` of a topology's outputs says; None if there is none. Raises `CommittedError`."""
    path = directory / COMMITTED
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise CommittedError(
            f"{path}: {error}. The driver of the topology writes it again with its next epoch."
        ) from error


def deployment_directory(topology: Path, deployed: int) -> Path:
    """Where the outputs of one deployment are. topology: the directory of the topology's outputs."""
    return topology / f"deployed={deployed}"


def rows_directory(topology: Path, committed: Committed) -> Path:
    """Where the files that count are, below the directory of the topology's outputs."""
    files = deployment_directory(topology, committed.deployed)
    # Without it there are no rows, or they are of a version that had no directory for the deployment.
    return files if files.is_dir() else topology


def committed_files(directory: Path, operator: str, committed: Committed) -> Iterator[Path]:
    """The files of an operator that count; `directory` is that of the topology's outputs."""
    for partition in sorted((rows_directory(directory, committed) / operator).glob("partition=*")):
        for span in committed.spans:
            file = partition / span_name(span) / SPAN_FILE
            if file.is_file():
                yield file
        for epoch in range(committed.tail + 1, committed.epoch + 1):
            newest = epoch_file(partition / f"epoch={epoch}")
            if newest is not None:
                yield newest


def span_name(span: Span) -> str:
    return f"epochs={span.first}-{span.last}"


def epoch_file(directory: Path) -> Path | None:
    """The file of one epoch: that of the highest attempt, and None if that had no rows."""
    try:
        found = [(ATTEMPT.fullmatch(path.name), path) for path in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return None
    attempts = [(int(match[1] or 0), path) for match, path in found if match]
    newest = max(attempts, default=None)
    return newest[1] if newest is not None and newest[1].suffix == ".parquet" else None
