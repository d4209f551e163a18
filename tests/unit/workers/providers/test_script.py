"""The provider `script`: the input of the executable, and the result of each kind of answer."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from host import environment
from host.processes import is_running, start_time
from workers.providers.base import NodeDescription, NodeWanted, ProviderError, RunningNode
from workers.providers.local import LocalNodeProvider
from workers.providers.registry import provider_create
from workers.providers.script import TAIL, ScriptNodeProvider

WANTED = NodeWanted(
    request="incident-1/node-2/1",
    requested_at=1000.0,
    replacement=True,
    node=NodeDescription(name="node-5", rack="rack-a", slots=4, capacity=200),
)
Make = Callable[[str], ScriptNodeProvider]


SECRET = "a-key-that-no-script-gets"
"""Not a word that other tests have in the environment, whose servers may run in the same process."""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A provider whose executable is a shell script with this body; its limits are short."""

    def made(body: str) -> ScriptNodeProvider:
        path = tmp_path / "nodes"
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return ScriptNodeProvider(
            script=path,
            environment={**os.environ, "RESURGE_HOME": "/srv", "RESURGE_SECRET_KEY": SECRET},
            limits={"acquire": 1.0, "release": 1.0, "list": 1.0, "fail": 1.0},
        )

    return made


def test_acquiring_tells_the_request_and_the_node(make: Make, tmp_path: Path) -> None:
    provider = make('cat > asked; echo $1 > action; env > environment; echo \'{"state": "started"}\'')
    assert provider.acquire(WANTED) is None
    assert (tmp_path / "action").read_text() == "acquire\n"
    assert json.loads((tmp_path / "asked").read_text()) == {
        "request": "incident-1/node-2/1",
        "requested_at": 1000.0,
        "replacement": True,
        "node": {"name": "node-5", "rack": "rack-a", "slots": 4, "capacity": 200, "standby": False},
    }
    seen = (tmp_path / "environment").read_text()
    assert "RESURGE_HOME=/srv\n" in seen
    assert SECRET not in seen


def test_a_node_that_comes_later(make: Make) -> None:
    due = make('echo \'{"state": "pending", "again_in": 60}\'').acquire(WANTED)
    assert due == pytest.approx(time.time() + 60, abs=5)


def test_listing(make: Make) -> None:
    nodes = [
        {"name": "node-5", "state": "started", "rack": "rack-a", "slots": 4, "capacity": 200, "pid": 7},
        {"name": "node-6", "state": "pending", "address": "10.0.0.6"},
        {"name": "node-7", "state": "dead", "of another field": "that is not read"},
    ]
    assert make(f"echo '{json.dumps({'nodes': nodes})}'").nodes() == [
        RunningNode(description=WANTED.node, address="", pid=7, alive=True),
        RunningNode(
            description=NodeDescription(name="node-6", rack=""), address="10.0.0.6", pid=0, alive=True,
            started=False,
        ),
        RunningNode(description=NodeDescription(name="node-7", rack=""), address="", pid=0, alive=False),
    ]  # fmt: skip


def test_failing_and_releasing(make: Make, tmp_path: Path) -> None:
    provider = make("cat >> asked; [ $1 = release ] || echo '{\"killed\": true}'")
    assert provider.fail("node-5") is True
    provider.release("node-5", keep_disk=True)
    assert (tmp_path / "asked").read_text() == '{"name":"node-5"}{"name":"node-5","keep_disk":true}'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo no quota left >&2; exit 3", "nodes acquire node-5 exited with 3: no quota left"),
        ("echo no quota left; exit 3", "nodes acquire node-5 exited with 3: no quota left"),
        ("exit 3", "exited with 3: it wrote nothing"),
        ("echo starting >&2; sleep 60", "was ended after 1 seconds: starting"),
        ("echo done", "gave no answer that can be read .*: done"),
        ("true", "gave no answer that can be read .*: it wrote nothing"),
        ('echo \'{"state": "soon"}\'', "Invalid enum value 'soon'"),
        ('echo \'{"state": "pending", "again_in": 0}\'', "again_in must be at least 1"),
        ("echo '[1]'", "it must be a mapping, not a list"),
        ("kill -9 $$", "exited with -9"),
    ],
)
def test_what_goes_wrong_is_told_with_the_end_of_the_output(make: Make, body: str, said: str) -> None:
    with pytest.raises(ProviderError, match=said):
        make(body).acquire(WANTED)


def test_a_call_for_which_there_is_no_temporary_file_fails_as_others_do(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other error would end the launcher."""
    provider = make("echo '{}'")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for call in (provider.nodes, lambda: provider.acquire(WANTED), lambda: provider.release("node-5")):
        with pytest.raises(
            ProviderError, match=r"^nodes (list|acquire|release) .*was not run: .*No such file"
        ):
            call()


def test_much_output_is_told_by_its_end(make: Make) -> None:
    with pytest.raises(ProviderError) as told:
        make("seq 1 100000 >&2; exit 1").acquire(WANTED)
    assert str(told.value).endswith("99999\n100000")
    assert len(str(told.value)) < TAIL + 100


def test_a_call_that_takes_too_long_ends_with_what_it_started(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="was ended after 1 seconds"):
        make("sleep 60 & echo $! > pid; wait").nodes()
    pid = int((tmp_path / "pid").read_text())
    assert start_time(pid) is None


def test_a_node_that_holds_the_output_does_not_hold_the_call(make: Make, tmp_path: Path) -> None:
    provider = make('setsid sleep 60 & echo $! > pid; echo \'{"state": "started"}\'')
    assert provider.acquire(WANTED) is None
    pid = int((tmp_path / "pid").read_text())
    started = start_time(pid)
    assert started is not None
    os.kill(pid, 9)
    while is_running(pid, started):
        time.sleep(0.01)


def test_which_provider_an_installation_has(tmp_path: Path) -> None:
    home = {"RESURGE_HOME": str(tmp_path), "RESURGE_CPU_CAPS": "0"}
    assert isinstance(provider_create(environment.read(home)), LocalNodeProvider)
    script = tmp_path / "nodes"
    chosen = environment.read({**home, "RESURGE_PROVIDER": "script", "RESURGE_PROVIDER_SCRIPT": str(script)})
    with pytest.raises(ProviderError, match=r"RESURGE_PROVIDER_SCRIPT=.*nodes: there is no executable file"):
        provider_create(chosen)
    script.write_text("#!/bin/sh\n")
    with pytest.raises(ProviderError, match="there is no executable file"):
        provider_create(chosen)
    script.chmod(0o755)
    assert provider_create(chosen).describe() == f"the executable {script}"
