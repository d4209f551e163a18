"""Rows of the input that were not used, as the driver lists them beside its log: a few, of bounded files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from controlplane.operators.log_files import LogFile, end_of, name_is_plain

Line = TypeVar("Line")
SHOWN: Final = 10
BYTES: Final = 64 * 1024


class RejectedRow(msgspec.Struct, frozen=True):
    """A line of `input.rejected.jsonl`: number in the input, from 0."""

    row: int
    reason: str


class LateRow(msgspec.Struct, frozen=True):
    """A line of `late.jsonl`, as `domain.execution.job.LateRow` describes it."""

    partition: str
    epoch: int
    row: int
    ts: int | None = None


class Prepared(msgspec.Struct, frozen=True):
    """What this module needs of `input.json`: the file that the source reads, its copy, and the list of rows
    that are not used."""

    source: str
    path: str = ""
    rejected_path: str = ""


_rejected: Final = msgspec.json.Decoder(RejectedRow)
_late: Final = msgspec.json.Decoder(LateRow)
_prepared: Final = msgspec.json.Decoder(Prepared)


@dataclass(frozen=True, slots=True)
class TopologyFiles:
    """What the driver keeps of a topology on this host."""

    home: Path
    topology: str

    def prepared(self, source: str, *, only: bool) -> Prepared | None:
        """The facts about the input of a file source; None if they are not here."""
        try:
            return _prepared.decode(self._text("input.json" if only else f"{source}.json"))
        except (OSError, ValueError):
            return None

    def rejected(self, prepared: Prepared) -> list[str]:
        """Rows of an input that are not used, in sentences."""
        # The home may have been moved; the list is beside the copy.
        listed = self._lines(Path(prepared.rejected_path).name, _rejected)
        return [f"row {one.row}: {one.reason}" for one in listed if one.row >= 0][:SHOWN]

    def late(self, operator: str) -> list[str]:
        """The last rows that came too late, in sentences."""
        found = [
            f"epoch {one.epoch} of {one.partition}: row {one.row} of what it read"
            + (" had no event time" if one.ts is None else " came too late")
            for one in self._lines("late.jsonl", _late)
            if one.partition.partition("[")[0] == operator
        ]
        return found[-SHOWN:]

    def _lines(self, name: str, decoder: msgspec.json.Decoder[Line]) -> Iterator[Line]:
        try:
            text = self._text(name)
        except OSError:
            return
        for line in text.splitlines():
            try:
                yield decoder.decode(line)
            except ValueError:
                continue  # cut, or of another version

    def _text(self, name: str) -> str:
        if not name_is_plain(self.topology):
            raise FileNotFoundError(self.topology)
        path = self.home / "topologies" / self.topology / name
        return end_of(self.home, LogFile(name, path), BYTES).text
