"""What services raise when they cannot do what was asked: what is wrong, and where."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import InterfaceError, InternalError, OperationalError

from domain.topology import FieldProblem, TopologyError

BUSY = "The database is busy or away; nothing was changed. Try again in some seconds."
RETRY_AFTER = 5
"""Seconds."""
DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)
"""What is raised where the database takes nothing now. The last one is what PostgreSQL has for one that may
only be read, as a standby is after a failover."""


class ServiceError(Exception):
    """Base of everything a caller can put right."""


class Invalid(ServiceError):  # noqa: N818 - named for what is the matter
    """The request cannot be accepted; `problems` gives a path and a message for each fault."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.problems = [FieldProblem(path, message)]

    @classmethod
    def from_problems(cls, problems: Iterable[FieldProblem]) -> Invalid:
        found = list(problems)
        error = cls("", "; ".join(str(problem) for problem in found))
        error.problems = found
        return error

    @classmethod
    def from_topology(cls, error: TopologyError) -> Invalid:
        return cls.from_problems(error.problems)


class Conflict(ServiceError):  # noqa: N818
    """The present state does not permit it; the message says which state it is and what to do."""


class Busy(ServiceError):  # noqa: N818
    """There is no room for this question now; it can be asked again in `RETRY_AFTER` seconds, as it is."""


class Stale(ServiceError):  # noqa: N818
    """The object has changed since the author of this change read it; `tag` is its present entity tag."""

    def __init__(self, message: str, tag: str) -> None:
        super().__init__(message)
        self.tag = tag


class Missing(ServiceError):  # noqa: N818
    """There is no such thing."""
