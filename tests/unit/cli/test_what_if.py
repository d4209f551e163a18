"""What-if and replication plans, on a healthy topology that runs on four nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from knox.models import AuthToken
from pytest_django.live_server_helper import LiveServer

from cli.main import main
from controlplane.topologies.models import Partition, Topology
from tests.unit.cli.running import Answer, Terminal
from tests.unit.controlplane.conftest import nodes, sent_tasks, topology  # noqa: F401
from tests.unit.controlplane.whatif.test_what_if import deployed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def running(topology: Topology, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:  # noqa: F811
    """The environment of an operator of that server."""
    deployed(topology)
    user = User.objects.create_user("ada")
    user.groups.add(Group.objects.get_or_create(name="operator")[0])
    token = AuthToken.objects.create(user=user)[1]
    variables = {"RESURGE_URL": live_server.url, "RESURGE_TOKEN": token}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


def test_planners_are_compared(running: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["what-if", "--node", "node-1", "--rack", "rack-b", "--arrivals", "100,150.5,200"]
    asked += ["--planner", "best_density", "--planner", "blocking", "--priority", "counts/O1[0]=10"]
    assert main(asked) == 0
    answer = Answer(0, *capsys.readouterr())
    assert answer.json["failed_nodes"] == ["node-1", "node-2", "node-4"]
    assert [one["at"] for one in answer.json["arrivals"]] == [100.0, 150.5, 200.0]
    assert [one["algorithm"] for one in answer.json["algorithms"]] == ["best_density", "blocking"]
    assert main([*asked, "-o", "table"]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "3 nodes fail (node-1, node-2, node-4): 3 queries stop of 3",
        "Stop: counts/O0[0], counts/O0[1], counts/O1[0]",
    ]
    head, best, blocking = out.splitlines()
    assert head.split()[:4] == ["PLANNER", "FIRST", "HALF", "ALL"]
    assert best.startswith("best_density")
    assert "█" in best
    assert blocking.startswith("blocking")
    uniform = ["what-if", "--node", "node-1", "--arrivals", "uniform:60:90", "--seed", "7"]
    assert main(uniform) == 0
    (arrival,) = Answer(0, *capsys.readouterr()).json["arrivals"]
    assert 60 <= arrival["at"] <= 90
    assert main(["what-if", "--node", "node-1", "--arrivals", "soon"]) == 1
    assert "uniform:<low>:<high>" in capsys.readouterr().err


def test_replicas_take_over(running: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["what-if", "--node", "node-2", "--arrivals", "100"]
    lacking = "0 queries stop of 3, 3 queries lack a part of their input"
    shadows = {one: {"node": "node-1", "caught_up": True, "lacks": 0} for one in ("Source[1]", "Parser[1]")}
    Topology.objects.update(shadows=shadows)

    def told(*more: str) -> list[str]:
        assert main([*asked, *more, "-o", "table"]) == 0
        return capsys.readouterr().err.splitlines()

    taken = "Replicas take over 2 partitions: Parser[1], Source[1]"
    assert told() == ["1 node fails (node-2): 0 queries stop of 3", taken]
    assert told("--replicas", "running") == told()
    assert told("--replicas", "none") == [
        f"1 node fails (node-2): {lacking}",
        "Lack a part of their input: counts/O0[0] (keeps 50 %), counts/O0[1] (keeps 50 %), "
        "counts/O1[0] (keeps 50 %)",
    ]
    assert told("--replicas", "0") == told("--replicas", "none")
    assert told("--replicas", "7")[1:] == [taken]
    Partition.objects.update(cpu=0.39)
    assert told("--replicas", "7")[-1].startswith("No node has room for a replica of ")
    for wrong in ("all", "-1", "2.5", ""):
        assert main([*asked, "--replicas", wrong]) == 2, wrong
        assert "is neither `running`, `none` nor a whole number" in capsys.readouterr().err
    assert main([*asked, "--replicas", "20001"]) == 1
    assert "between 0 and 20000 partitions" in capsys.readouterr().err


def test_failing_a_node_says_which_queries_stop_and_for_how_long(
    running: dict[str, str], settings: Any
) -> None:
    settings.RESURGE = dataclasses.replace(settings.RESURGE, fault_injection=True)
    shared = Partition.objects.get(operator="Parser", index=0)  # every query needs it
    with Terminal("nodes", "fail", str(shared.node), variables=running) as terminal:
        terminal.until("Reason:")
        assert "partitions of counts are lost with their local state: " in terminal.words
        assert "queries stop, all back after about" in terminal.words
        terminal.type("\x04")
        terminal.end()
        assert terminal.code == 130


def test_a_replication_plan_is_read(running: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["topologies", "replication-plan", "counts", "--budget", "3"]
    assert main(asked) == 0
    answer = Answer(0, *capsys.readouterr())
    assert [one["partition"] for one in answer.json["chosen"]] == ["O0[0]", "Parser[0]", "Source[0]"]
    assert main([*asked, "--planner", "dynamic_programming", "-o", "table"]) == 0
    out, err = capsys.readouterr()
    assert "1 of 3 queries would continue with replicas of 3 of 7 partitions" in err
    assert out.splitlines()[0].split()[:4] == ["STEP", "PARTITION", "FIDELITY", "GAIN"]
    assert main([*asked, "--planner", "optimal", "--objective", "plain", "-o", "json"]) == 0
    answer = Answer(0, *capsys.readouterr())
    assert (answer.json["planner"], answer.json["objective"], answer.json["proven"]) == (
        "optimal",
        "plain",
        True,
    )
    assert main(["topologies", "replication-plan", "missing"]) != 0
    assert "there is no topology 'missing'" in capsys.readouterr().err


def test_replicas_are_shown_and_asked_for(
    running: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["replicas", "set", "counts", "--mode", "on", "--budget", "3", "--reason", "they must not wait"]
    assert main([*asked, "-o", "json"]) == 0
    answer = Answer(0, *capsys.readouterr())
    assert (answer.json["mode"], answer.json["budget"], answer.json["replicas"]) == ("on", 3, [])
    Topology.objects.update(
        shadows={
            "O0[0]": {"node": "node-2", "caught_up": True},
            "O0[1]": {"node": "node-1", "caught_up": False},
        }
    )
    assert main(["replicas", "show", "counts", "-o", "table"]) == 0
    out, err = capsys.readouterr()
    assert "Replicas of counts: on, 2 of at most 3 partitions" in err
    assert "2 replicas more would keep" in err or "1 replica more would keep" in err
    assert "O0[0]" in out
    assert "rack rack-a" in out
    assert main(["replicas", "set", "counts", "--reason", "because"]) != 0
