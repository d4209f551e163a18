"""`make up REPLICAS=on`, `REPLICAS=6`, `REPLICAS=off`: whether replicas of the deployed topology run.

It changes the policy of the topology as `resurge replicas set` does. A start that does not name it leaves the
policy as it is, and naming the same again changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from supervision.rest import RestError

MAIN_JOB_BUDGET = 15
"""Of the main job's 23 partitions, for `REPLICAS=on`. That is the smallest budget with which the plan has all
four sources and parsers, so that queries with a replica go on with their whole input: seven of fifteen, where
all partitions give the same."""


class Patching(Protocol):
    """What is needed of `supervision.rest.Rest`."""

    def patch(self, path: str, body: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What a command named. budget: None is the usual one."""

    named: str
    on: bool
    budget: int | None = None

    def changes(self, usual: int | None) -> dict[str, Any]:
        """What is to be of the policy. usual: the budget where the command names none; None is that of the
        installation, a quarter of all partitions."""
        if not self.on:
            return {"mode": "off"}
        return {"mode": "on", "budget": usual if self.budget is None else self.budget}


def replicas_named(text: str) -> Replicas | None:
    """None where nothing is named. Raises `ValueError`."""
    word = text.strip().lower()
    if not word:
        return None
    if word in ("on", "off"):
        return Replicas(named=word, on=word == "on")
    if not (word.isascii() and word.isdigit()):
        raise ValueError(f"REPLICAS={text}: give on, off or how many partitions may have a replica")
    return Replicas(named=word, on=int(word) > 0, budget=int(word) or None)


def replicas_set(rest: Patching, topology: str, wanted: Replicas, *, usual: int | None) -> str:
    """Have the topology's policy say so, and say what it says now. A refusal is told, too, since the topology
    runs all the same."""
    body = {**wanted.changes(usual), "reason": f"make up REPLICAS={wanted.named}"}
    try:
        answer = rest.patch(f"topologies/{topology}/replicas/", body)
    except RestError as error:
        return f"replicas of {topology} stay as they are: {_refusal(error)}"
    if answer["mode"] != "on":
        return f"no replica of {topology} runs"
    return f"up to {answer['budget']} partitions of {topology} get a replica, as far as nodes have room"


def _refusal(error: RestError) -> str:
    """The words of the server where there are any."""
    try:
        found = [str(one["message"]) for one in json.loads(error.body)["errors"]]
    except (ValueError, LookupError, TypeError):
        found = []
    return "; ".join(found) or str(error)
