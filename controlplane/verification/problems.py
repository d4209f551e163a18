"""Why a verification cannot be made, or not for a query."""

from __future__ import annotations


class VerificationError(Exception):
    """Nothing can be verified: says where, what, and what to do about it."""

    def __init__(self, *, where: str, what: str, hint: str) -> None:
        super().__init__(f"{where}: {what}. {hint}")
        self.where = where
        self.what = what
        self.hint = hint


class NotExpressibleError(Exception):
    """This operator's output cannot be recomputed in SQL; the message says why."""
