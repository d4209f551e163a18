from __future__ import annotations

import pytest

from host.process_secrets import (
    CHECKPOINTS,
    DATABASE,
    EXECUTOR,
    KEY,
    NEEDED,
    REDIS,
    SECRETS,
    SPARK,
    ZOOKEEPER,
    environment_for,
    withheld,
)

EVERYTHING = {**dict.fromkeys(SECRETS, "s"), "PATH": "/bin", "RESURGE_HOME": "/srv/resurge"}


@pytest.mark.parametrize("role", sorted(NEEDED))
def test_a_process_gets_what_it_needs_and_all_that_is_no_secret(role: str) -> None:
    given = environment_for(role, EVERYTHING)
    assert given.keys() == NEEDED[role] | {"PATH", "RESURGE_HOME"}
    assert withheld(role) == SECRETS - NEEDED[role]


def test_what_runs_operators_has_no_way_into_the_control_plane() -> None:
    for role in ("driver", "driver-jvm", "node", "executor", "operators"):
        assert not NEEDED[role] & {KEY, DATABASE}, role
    assert not NEEDED["node"] & {REDIS}
    assert NEEDED["executor"] == {EXECUTOR, CHECKPOINTS}
    assert NEEDED["operators"] == {CHECKPOINTS}
    assert not NEEDED["recovery"] & {KEY, SPARK}
    assert not NEEDED["webhooks"] & {ZOOKEEPER, SPARK}


def test_an_unknown_process_gets_nothing() -> None:
    with pytest.raises(KeyError):
        environment_for("something", EVERYTHING)
