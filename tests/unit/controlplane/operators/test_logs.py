"""The logs of an operator over REST: which files are read, how much of each, and what is never read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.incidents.models import Incident
from controlplane.nodes.models import Node
from controlplane.operators import logs
from controlplane.operators.log_files import LogEnd, LogFile, driver_log, end_of, node_logs
from controlplane.topologies.models import Partition, Topology
from tests.unit.controlplane.conftest import client_of

PATH = "/api/v1/topologies/counts/operators/O0/log/"


def told(second: int, text: str, level: str = "info") -> str:
    return f"timestamp='2026-11-26T07:00:{second:02d}.000000Z' level='{level}' logger='x' event='{text}'\n"


@pytest.fixture
def home(topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """O0[0] is on node-1, O0[1] on node-2; other operators are on node-3."""
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE, home=tmp_path))
    Partition.objects.filter(topology=topology).delete()
    for operator, index, node in (("O0", 0, "node-1"), ("O0", 1, "node-2"), ("O1", 0, "node-3")):
        Partition.objects.create(
            topology=topology, operator=operator, index=index, node=Node.objects.get(name=node)
        )
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "driver.counts.log").write_text(told(1, "first") + told(5, "fifth", "error"))
    (tmp_path / "log" / "node-1.log").write_text(told(2, "second"))
    (tmp_path / "log" / "node-3.log").write_text(told(3, "of another node"))
    (tmp_path / "log" / "driver.other.log").write_text(told(3, "of another topology"))
    return tmp_path


@pytest.fixture
def operator(home: Path) -> APIClient:
    return client_of("operator")


def executor(home: Path, application: str, number: int, text: str, *, node: str = "node-1") -> Path:
    directory = home / "nodes" / node / "work" / "counts" / application / str(number)
    directory.mkdir(parents=True)
    (directory / "stderr").write_text(text)
    return directory


def shown(operator: APIClient, **query: Any) -> list[str]:
    answer = operator.get(PATH, query)
    assert answer.status_code == 200, answer.json()
    return [line["text"].partition("event='")[2].rstrip("'") for line in answer.json()["lines"]]


def test_files_are_merged_newest_last(operator: APIClient, home: Path) -> None:
    executor(home, "app-20261126070000-0001", 0, told(4, "fourth"))
    answer = operator.get(PATH).json()
    assert shown(operator) == ["first", "second", "fourth", "fifth"]
    assert [line["source"] for line in answer["lines"]] == [
        "driver", "node-1 agent", "node-1 executor 0", "driver",
    ]  # fmt: skip
    assert answer["lines"][0]["at"] == "2026-11-26T07:00:01.000Z"
    assert answer["nodes"] == ["node-1", "node-2"]
    assert answer["unread"] == [
        {
            "name": "node-2",
            "reason": "it keeps no log on this host; read it on the host that the node runs on",
        }
    ]
    assert {source["whole"] for source in answer["sources"]} == {True}


def test_filters(operator: APIClient) -> None:
    assert shown(operator, text="SECOND") == ["second"]
    assert shown(operator, level="error") == ["fifth"]
    assert shown(operator, node="node-1") == ["second"]
    assert shown(operator, limit=1) == ["fifth"]
    assert operator.get(PATH, {"limit": 1}).json()["matching"] == 3
    answer = operator.get(PATH, {"node": "node-3"})
    assert answer.status_code == 400
    message = "no partition of O0 is on it, nor was it lost; nodes to ask for: node-1, node-2"
    assert answer.json()["errors"][0]["message"] == message


def test_what_the_newest_incident_lost_can_be_read(
    operator: APIClient, home: Path, topology: Topology
) -> None:
    node = Node.objects.get(name="node-3")
    for number, lost in ((1, Node.objects.get(name="node-4")), (2, node)):
        incident = Incident.objects.create(
            number=number, opened_at=timezone.now(), detected_at=timezone.now()
        )
        incident.topologies.add(topology)
        incident.failed_nodes.add(lost)
    assert operator.get(PATH).json()["nodes"] == ["node-1", "node-2", "node-3"]
    assert shown(operator, node="node-3") == ["of another node"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "level=loud",
        f"text={'x' * 201}",
        "file=driver.log",
        "node=../../etc",
        "node=%00",
    ],
)
def test_what_cannot_be_asked(operator: APIClient, query: str) -> None:
    assert operator.get(f"{PATH}?{query}").status_code == 400


def test_only_operators_read_them(home: Path) -> None:
    assert client_of("viewer").get(PATH).status_code == 403
    assert client_of("administrator").get(PATH).status_code == 200


def test_there_is_no_such_operator(operator: APIClient) -> None:
    for path in (PATH.replace("O0", "O9"), PATH.replace("counts", "other"), PATH.replace("O0", "..")):
        assert operator.get(path).status_code == 404


def test_the_end_only(operator: APIClient, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = told(7, "x" * 50)
    (home / "log" / "node-1.log").write_text(line * 100)
    monkeypatch.setattr(logs, "MOST_BYTES", 5 * len(line) + 3)
    answer = operator.get(PATH, {"node": "node-1", "limit": 500}).json()
    assert (answer["matching"], answer["sources"][0]["whole"]) == (5, False)


def test_many_files_share_the_bytes(operator: APIClient, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(logs, "ALL_BYTES", 1000)

    def noted(home: Path, file: LogFile, most: int) -> LogEnd:
        asked.append(most)
        return end_of(home, file, most)

    monkeypatch.setattr(logs, "end_of", noted)
    shown(operator)
    assert asked
    assert sum(asked) <= 1000


def test_of_many_nodes_some_are_read(
    operator: APIClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_NODES", 1)
    unread = operator.get(PATH).json()["unread"]
    assert unread == [{"name": "1 further nodes", "reason": "1 are read at once; choose a node"}]
    assert shown(operator, node="node-2") == [], "a chosen node is read all the same"


def test_a_link_is_not_followed(operator: APIClient, home: Path, tmp_path_factory: Any) -> None:
    secret = tmp_path_factory.mktemp("elsewhere")
    (secret / "key").write_text("secret\n")
    (home / "log" / "node-1.log").unlink()
    (home / "log" / "node-1.log").symlink_to(secret / "key")
    work = home / "nodes" / "node-1" / "work"
    work.mkdir(parents=True)
    (secret / "app-1" / "0").mkdir(parents=True)
    (secret / "app-1" / "0" / "stderr").write_text("secret\n")
    (work / "counts").symlink_to(secret)
    answer = operator.get(PATH)
    assert answer.status_code == 200
    assert "secret" not in answer.content.decode()
    assert "cannot be read" in answer.json()["unread"][0]["reason"]


def test_no_name_leads_elsewhere(operator: APIClient, home: Path) -> None:
    (home / "secret.log").write_text("secret\n")
    for name in ("../secret", "..", "node-1/../../secret", "node 1", "", "node-1\n", "."):
        with pytest.raises(ValueError, match="is not a name"):
            node_logs(home, "counts", name)
        with pytest.raises(ValueError, match="is not a name"):
            driver_log(home, name)
    Node.objects.filter(name="node-1").update(name="../secret")
    answer = operator.get(PATH)
    assert answer.json()["unread"][0]["reason"] == "its name is not one that a log can have"
    assert "secret\\n" not in answer.content.decode()
    with pytest.raises(ValueError, match="not in the subpath"):
        end_of(home, LogFile("x", Path("/etc/passwd")), 10)


def test_a_pipe_and_a_directory_do_not_hold_it_up(operator: APIClient, home: Path) -> None:
    (home / "log" / "node-1.log").unlink()
    os.mkfifo(home / "log" / "node-1.log")
    (executor(home, "app-20261126070000-0002", 1, "") / "stdout").mkdir()
    assert shown(operator, node="node-1") == []


def test_the_newest_executors_of_the_newest_application(operator: APIClient, home: Path) -> None:
    old = executor(home, "app-20261126060000-0001", 0, told(9, "of an earlier driver"))
    os.utime(old.parent, (1, 1))
    for number in (1, 2, 3):
        directory = executor(home, "app-20261126070000-0002", number, told(10 + number, f"executor {number}"))
        os.utime(directory, (number, number))
    os.utime(directory.parent, (5, 5))
    assert shown(operator, text="executor") == ["executor 2", "executor 3"]
    assert shown(operator, text="earlier") == []


def test_a_file_that_was_emptied_in_place(home: Path) -> None:
    path = home / "log" / "node-1.log"
    path.write_bytes(b"\0" * 4096 + told(1, "again").encode())
    assert end_of(home, LogFile("x", path), 8192).text == told(1, "again")
