"""What can be wrong with an input: an error that stops the deployment, or a problem worth showing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

NOT_USED: Final = "rows are treated as having no text"
"""Of a file's rows."""
CUT: Final = "rows came behind the watermark or had no event time, and were left out"
"""Of rows that a source has read."""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Something an operator should know about, in the three parts every message has."""

    where: str
    what: str
    hint: str
    severity: Literal["warning", "error"] = "warning"

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.hint}"


class SourceError(Exception):
    """The input cannot be used; the error says where, why, and what to do."""

    def __init__(self, *, where: str, what: str, hint: str) -> None:
        super().__init__(f"{where}: {what}. {hint}")
        self.where = where
        self.what = what
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return _source_error, (self.where, self.what, self.hint)


def _source_error(where: str, what: str, hint: str) -> SourceError:
    return SourceError(where=where, what=what, hint=hint)
