"""Nodes brought up, killed and replaced by the executable of the provider `script`, in real processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from host.environment import ROOT
from tests.integration.control_plane.stack import Stack
from tests.integration.control_plane.test_recovery_workers import SPEC, alive, healthy, hosting

pytestmark = pytest.mark.integration

FAIL = """
import django; django.setup()
from controlplane.events.choices import Channel, OperationKind
from controlplane.nodes.actions import node_action
node_action(kind=OperationKind.NODE_FAIL, name={name!r}, actor="test", reason="a test", channel=Channel.CLI)
"""


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    """The directory of the executable."""
    directory = tmp_path / "provider"
    directory.mkdir()
    return directory


@pytest.fixture
def stack(tmp_path: Path, provider: Path) -> Iterator[Stack]:
    """Three nodes, which the launcher has acquired, and a topology on them."""
    script = tmp_path / "nodes"
    module = "tests.integration.control_plane.provider_script"
    script.write_text(f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m {module} "$1"\n')
    script.chmod(0o755)
    stack = Stack(tmp_path)
    stack.environment |= {"RESURGE_PROVIDER": "script", "RESURGE_PROVIDER_SCRIPT": str(script)}
    (tmp_path / "run").mkdir(exist_ok=True)
    (tmp_path / "run" / "first-nodes.json").write_text(json.dumps({"nodes": 3}))
    try:
        stack.servers()
        for name in ("detection", "recovery", "beat", "launcher"):
            stack.start(name)
        stack.wait("the first nodes", lambda: len(alive(stack)) == 3, 60)
        stack.deploy(SPEC)
        stack.wait("the topology runs", lambda: stack.applied("demo") == [1])
        yield stack
    finally:
        (provider / "hang").unlink(missing_ok=True)
        stack.stop_all()
        for record in provider.glob("*.json"):
            with suppress(ProcessLookupError):
                os.killpg(json.loads(record.read_text())["pid"], signal.SIGKILL)


def requests(stack: Stack) -> list[tuple[str, str, str]]:
    rows = stack.rows(
        "select key, state, error from nodes_noderequest where key like 'incident-%' order by id"
    )
    return [(row["key"], row["state"], row["error"]) for row in rows]


def closed(stack: Stack, number: int) -> bool:
    return [incident["state"] for incident in stack.incidents()] == ["closed"] * number


def test_nodes_are_killed_and_replaced_by_the_executable(stack: Stack, provider: Path) -> None:
    # The executable kills a node, and brings no other up: the request says why, and so does the story.
    (provider / "refuse").touch()
    victim = hosting(stack)[0]
    stack.python(FAIL.format(name=victim))
    stack.wait(f"{victim} lost", lambda: stack.node_states()[victim] == "lost")
    first = f"incident-1/{victim}/1"
    stack.wait(
        "the first request failed", lambda: [r[:2] for r in requests(stack)][:1] == [(first, "failed")]
    )
    assert requests(stack)[0][2] == "nodes acquire node-4 exited with 3: the cloud says: no quota left"
    assert "no quota left" in "\n".join(stack.story())
    assert stack.node_states()["node-4"] == "left"
    (provider / "refuse").unlink()
    stack.wait("the incident closed", lambda: closed(stack, 1), 60)
    healthy(stack)
    stack.wait("the replacement joined", lambda: requests(stack)[-1][1:] == ("joined", ""), 60)
    waited = stack.rows(
        "select requested_at, due_at from nodes_noderequest where key like ?", f"%/{victim}/2"
    )
    assert waited[0]["due_at"] > waited[0]["requested_at"], "the launcher waited after the failure"
    assert f"fail {victim}" in (provider / "calls").read_text()
    stack.wait("the dead one released", lambda: f"release {victim}" in (provider / "calls").read_text(), 20)

    # The launcher dies while the executable brings a node up: the next one does not acquire it again.
    # Without detection nothing notices that it registers, so that the request stays as the launcher left it.
    stack.kill("launcher")
    victim = hosting(stack)[0]
    stack.python(FAIL.format(name=victim))
    key = f"incident-2/{victim}/1"
    stack.wait("a node is asked for", lambda: (key, "pending", "") in requests(stack))
    stack.kill("detection")
    (provider / "hang").touch()
    stack.start("launcher")
    name = stack.rows("select node_name from nodes_noderequest where key = ?", key)[0]["node_name"]
    stack.wait("its process is there", (provider / f"{name}.json").exists)
    stack.kill("launcher")
    assert (key, "pending", "") in requests(stack)
    stack.start("launcher")
    stack.wait("the launcher finds the node", lambda: (key, "started", "") in requests(stack))
    assert stack.node_states()[name] == "joining"
    stack.start("detection")
    stack.wait("the incident closed", lambda: closed(stack, 2), 60)
    healthy(stack)
    stack.wait(f"{name} alive", lambda: name in alive(stack), 60)
    assert (provider / "calls").read_text().count(f"acquire {key}\n") == 1
