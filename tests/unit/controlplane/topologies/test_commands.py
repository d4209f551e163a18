from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from knox.models import AuthToken
from rest_framework.test import APIClient

from controlplane.nodes.models import Node
from controlplane.topologies.models import Topology
from tests.unit.controlplane.specs import spec_of


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def write(folder: Path, spec: Any) -> str:
    path = folder / "topology.yaml"
    path.write_text(yaml.safe_dump(spec), encoding="utf-8")
    return str(path)


def test_deploy_by_name_with_options(nodes: list[Node], tmp_path: Path) -> None:
    data = tmp_path / "tweets.csv"
    data.write_text("text\n#a\n", encoding="utf-8")
    out = run("deploy", "hashtags", "--name", "mine", "--input", str(data), "--rate", "10", "--limit", "5")
    assert "15 queries" in out
    topology = Topology.objects.get(name="mine")
    params = topology.spec["operators"][0]["params"]
    assert (params["path"], params["rate"], params["limit"]) == (str(data), 10, 5)
    assert topology.status == "deploying"
    assert "deployed already" in run("deploy", "hashtags", "--name", "mine", "--if-needed")
    with pytest.raises(CommandError, match="undeploy it before"):
        run("deploy", "hashtags", "--name", "mine")
    assert "stopping" in run("undeploy", "mine")
    with pytest.raises(CommandError, match="is not deployed"):
        run("undeploy", "mine")


def test_deploy_at_the_rates_of_a_file(nodes: list[Node], tmp_path: Path) -> None:
    views, rates = tmp_path / "views.csv", tmp_path / "rates.csv"
    views.write_text("page_id,server_id\n1,2\n", encoding="utf-8")
    rates.write_text("minute,requests\n2026-01-01 00:00,5\n2026-01-01 00:01,9\n", encoding="utf-8")
    asked = ("deploy", "top-pages", "--input", str(views), "--arrivals", str(rates), "--speedup", "2.5")
    run(*asked)
    params = Topology.objects.get(name="top-pages").spec["operators"][0]["params"]
    assert (params["arrivals"], params["speedup"], params["text"]) == (str(rates), 2.5, "page_id")
    assert "rate" not in params, "it would scale the rates of the file"
    run(*asked, "--name", "scaled", "--rate", "70")
    assert Topology.objects.get(name="scaled").spec["operators"][0]["params"]["rate"] == 70
    with pytest.raises(CommandError, match=r"params.arrivals: there is no file"):
        run("deploy", "top-pages", "--name", "none", "--arrivals", str(tmp_path / "none.csv"))
    with pytest.raises(CommandError, match="unknown parameter 'arrivals'"):
        run("deploy", "traffic-incidents", "--arrivals", str(rates))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parallelism": 0}, r"operators\[2\].parallelism"),
        ({"priority": 11}, r"operators\[2\].priority"),
        ({"kind": "nonsense"}, "unknown operator kind 'nonsense'"),
        ({"inputs": [{"from": "O1"}]}, "cycle without a `feedback`"),
    ],
)
def test_a_bad_file_is_explained(
    nodes: list[Node], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    spec = spec_of()
    spec["operators"][2].update(change)
    if "inputs" in change:
        spec["operators"][3]["inputs"] = [{"from": "O0"}]
        spec["operators"][3]["output"] = True
    with pytest.raises(CommandError, match=message):
        run("deploy", write(tmp_path, spec))
    assert not Topology.objects.exists()


def test_what_is_not_there_is_named(nodes: list[Node], tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="pipelines: hashtags"):
        run("deploy", "nope")
    with pytest.raises(CommandError, match="there is no file"):
        run("deploy", "hashtags", "--input", str(tmp_path / "absent.parquet"))
    empty = tmp_path / "empty.csv"
    empty.touch()
    with pytest.raises(CommandError, match="is empty"):
        run("deploy", "hashtags", "--input", str(empty))
    other = tmp_path / "other.csv"
    other.write_text("id,words\n1,#a\n", encoding="utf-8")
    with pytest.raises(CommandError, match="text"):
        run("deploy", "hashtags", "--input", str(other))
    garbage = tmp_path / "garbage.parquet"
    garbage.write_bytes(b"no parquet at all")
    with pytest.raises(CommandError, match="cannot be read"):
        run("deploy", "hashtags", "--input", str(garbage))
    assert not Topology.objects.exists()
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [", encoding="utf-8")
    with pytest.raises(CommandError, match=r"line 2, column 1: this cannot be read as YAML"):
        run("deploy", str(broken))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="cannot be read"):
        run("deploy", str(binary))


def test_waiting_for_nodes_ends(nodes: list[Node]) -> None:
    with pytest.raises(CommandError, match="4 of 9 nodes are alive"):
        run("deploy", "hashtags", "--wait-nodes", "9", "--timeout", "0.1")


@pytest.mark.django_db
def test_the_administrator_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="RESURGE_ADMIN_PASSWORD"):
        run("ensure_admin")
    monkeypatch.setenv("RESURGE_ADMIN_PASSWORD", "first-secret")
    first = json.loads(run("ensure_admin", "--token"))
    assert (first["user"], first["created"]) == ("admin", True)
    client = APIClient(headers={"Authorization": f"Token {first['token']}"})
    assert client.get("/api/v1/me/").json() == {"username": "admin", "role": "administrator"}
    monkeypatch.setenv("RESURGE_ADMIN_PASSWORD", "second-secret")
    second = json.loads(run("ensure_admin", "--token", "--replace-tokens"))
    assert second["created"] is False
    assert get_user_model().objects.get().check_password("second-secret")
    assert AuthToken.objects.count() == 1
    assert client.get("/api/v1/me/").status_code == 401
    run("ensure_admin")
    assert AuthToken.objects.count() == 1, "the password is the same"
    monkeypatch.setenv("RESURGE_ADMIN_PASSWORD", "third-secret")
    run("ensure_admin")
    assert not AuthToken.objects.exists(), "who knew the password before may have made them"


@pytest.mark.django_db
def test_a_start_leaves_the_administrator_as_users_have_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESURGE_ADMIN_PASSWORD", "recorded-secret")
    assert json.loads(run("ensure_admin", "--keep", "--migrate"))["created"] is True
    user = get_user_model().objects.get()
    user.set_password("changed-secret")
    user.save()
    kept = json.loads(run("ensure_admin", "--token", "--keep"))
    assert (kept["password"], "token" in kept) == (False, True)
    user.refresh_from_db()
    assert user.check_password("changed-secret")
    user.is_active = False
    user.save()
    assert "token" not in json.loads(run("ensure_admin", "--token", "--keep"))
    user.refresh_from_db()
    assert user.is_active is False
