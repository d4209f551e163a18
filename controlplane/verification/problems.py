"""Reasons why a topology or a query cannot be verified."""

from __future__ import annotations


class VerificationError(Exception):
    """The topology cannot be verified; the error says where, why, and what to do."""

    def __init__(self, *, where: str, what: str, hint: str) -> None:
        super().__init__(f"{where}: {what}. {hint}")
        self.where = where
        self.what = what
        self.hint = hint


class NotExpressibleError(Exception):
    """This operator's output cannot be recomputed in SQL; the message says why."""
