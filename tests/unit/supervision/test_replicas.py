"""`make up REPLICAS=`: what it names, and what a start does about it."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.topologies.validation import pipeline_read, spec_validate
from domain.replication import ReplicationProblem, StructureAware, equal_rates
from supervision import __main__ as command
from supervision import start as starting
from supervision.profiles import ROOMY
from supervision.replicas import MAIN_JOB_BUDGET, Replicas, replicas_named, replicas_set
from supervision.rest import RestError
from supervision.screen import Progress
from supervision.start import MAIN_JOB, Started, StartOptions

OPTIONS = ("PROFILE", "PIPELINE", "INPUT", "RATE", "LIMIT", "NODES", "SLOTS", "CAPACITY", "REPLICAS")


@pytest.fixture(autouse=True)
def _nothing_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OPTIONS:
        monkeypatch.delenv(name, raising=False)


class Server:
    """Remembers what was asked; answers as `replicas/` does."""

    def __init__(self, refuses: RestError | None = None) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.refuses = refuses

    def patch(self, path: str, body: Any) -> Any:
        self.asked.append((path, body))
        if self.refuses is not None:
            raise self.refuses
        return {"mode": body["mode"], "budget": body.get("budget") or 6}


# ---- what is named -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("on", {"mode": "on", "budget": 15}),
        (" On ", {"mode": "on", "budget": 15}),
        ("off", {"mode": "off"}),
        ("0", {"mode": "off"}),
        ("6", {"mode": "on", "budget": 6}),
    ],
)
def test_on_off_or_how_many(text: str, changes: dict[str, Any]) -> None:
    named = replicas_named(text)
    assert named is not None
    assert named.changes(15) == changes


def test_nothing_named_changes_nothing() -> None:
    assert replicas_named("") is None
    assert replicas_named("  ") is None


@pytest.mark.parametrize("text", ["yes", "-1", "1.5", "6,7", "²", "٣", "on off"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="give on, off or how many partitions") as refused:
        replicas_named(text)
    assert f"REPLICAS={text}" in str(refused.value)


def test_the_usual_budget_is_the_smallest_with_which_queries_go_on_whole() -> None:
    graph = spec_validate(pipeline_read(MAIN_JOB))
    assert len(graph.partitions) == 23

    def whole(budget: int) -> int:
        plan = StructureAware().plan(ReplicationProblem(graph, equal_rates(graph), budget))
        return sum(query.fidelity == 1.0 for query in plan.queries)

    assert whole(MAIN_JOB_BUDGET) == 7
    assert whole(MAIN_JOB_BUDGET - 1) == 0


# ---- what is set ---------------------------------------------------------------------------------


def test_the_policy_is_set_with_a_reason() -> None:
    server = Server()
    said = replicas_set(server, "hashtags", Replicas(named="on", on=True), usual=15)
    assert server.asked == [
        ("topologies/hashtags/replicas/", {"mode": "on", "budget": 15, "reason": "make up REPLICAS=on"})
    ]
    assert said == "up to 15 partitions of hashtags get a replica, as far as nodes have room"
    off = replicas_set(server, "hashtags", Replicas(named="off", on=False), usual=15)
    assert off == "no replica of hashtags runs"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            '{"errors": [{"path": "replication_mode", "message": "O1 may give other rows"}]}',
            "O1 may give other",
        ),
        ("<html>", "400"),
        ('{"errors": 3}', "400"),
        ("[]", "400"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(body: str, words: str) -> None:
    server = Server(RestError("PATCH", "x", 400, body))
    said = replicas_set(server, "counts", Replicas(named="on", on=True), usual=None)
    assert said.startswith("replicas of counts stay as they are: ")
    assert words in said


# ---- what a start does ---------------------------------------------------------------------------


def options_of(monkeypatch: pytest.MonkeyPatch, **given: str) -> StartOptions:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return command._options_from_environment(SimpleNamespace(profile=ROOMY, changes=False))  # type: ignore[arg-type]


def test_options_have_what_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = options_of(monkeypatch)
    assert plain.replicas is None
    named = options_of(monkeypatch, REPLICAS="6")
    assert named.replicas == Replicas(named="6", on=True, budget=6)
    assert named.source == plain.source, "the main job is not deployed anew for it"
    assert (named.topology, named.usual_replicas) == ("hashtags", MAIN_JOB_BUDGET)
    other = options_of(monkeypatch, PIPELINE="pipes/trending.yaml", REPLICAS="on")
    assert (other.topology, other.usual_replicas) == ("trending", None)


@pytest.mark.parametrize("given", [{"REPLICAS": "yes"}, {"REPLICAS": "on", "PIPELINE": "none"}])
def test_make_up_says_what_is_wrong_and_starts_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: dict[str, str],
) -> None:
    monkeypatch.setenv("RESURGE_HOME", str(tmp_path / "home"))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["supervision", "up"])
    assert command.main() == 2
    assert capsys.readouterr().err.startswith(f"REPLICAS={given['REPLICAS']}: ")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("status", ["absent", "running", "stopped"])
@pytest.mark.parametrize("named", ["", "on", "off"])
def test_a_start_sets_it_when_the_topology_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, named: str
) -> None:
    server, done = Server(), list[str]()

    def manage(installation: Any, *arguments: str) -> str:
        done.append(arguments[0])
        return "deployed"

    monkeypatch.setattr(starting, "manage", manage)
    monkeypatch.setattr(starting, "Rest", lambda url, token: server)
    monkeypatch.setattr(starting, "_status", lambda name, rest: status)
    sample: Future[Path] = Future()
    sample.set_result(tmp_path / "sample.parquet")
    installation: Any = SimpleNamespace(home=tmp_path)
    access: Any = SimpleNamespace(url="", token="")
    options = StartOptions(replicas=replicas_named(named), wait_queries=False)
    starting._deploy(Started(installation, access), options, sample, Progress())
    assert done == (["deploy"] if status == "absent" else [])
    assert [body["mode"] for _, body in server.asked] == ([named] if named else [])


@pytest.mark.parametrize("named", ["", "6"])
def test_it_takes_effect_at_once_while_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    server, shown = Server(), list[Started]()
    monkeypatch.setenv("REPLICAS", named)
    monkeypatch.setattr(command, "Supervisor", lambda home: SimpleNamespace(is_running=lambda: True))
    monkeypatch.setattr(command, "recorded", lambda home: SimpleNamespace(home=home))
    monkeypatch.setattr(command, "access_read", lambda home: SimpleNamespace(url="", token=""))
    monkeypatch.setattr(command, "last_start_notes", lambda *_: [])
    monkeypatch.setattr(command, "Rest", lambda url, token: server)
    monkeypatch.setattr(command, "_show_access", lambda started, *_args, **_more: shown.append(started))
    assert command._up(tmp_path, detach=True) == 0
    assert [body["budget"] for _, body in server.asked] == ([6] if named else [])
    assert len(shown[0].notes) == len(server.asked)
