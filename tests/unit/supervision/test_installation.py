from __future__ import annotations

import configparser
import os
import re
import socket
import stat
import tempfile
import threading
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from supervisor import loggers

from coordination.packing import LARGEST_REQUEST
from host.environment import InvalidEnvironment
from host.process_secrets import KEY, NEEDED, REDIS, SECRETS, SPARK, ZOOKEEPER
from supervision import ports
from supervision.installation import compose, home_directory, recorded
from supervision.programs import SERVERS, control_programs, log_says, server_programs
from supervision.screen import access_box
from supervision.stop import ORDER
from supervision.supervisor import LONGEST_SOCKET_PATH, Supervisor, configuration_text, socket_path
from supervision.zookeeper import zookeeper_program


@pytest.fixture(autouse=True)
def _no_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RESURGE_"):
            monkeypatch.delenv(name)


def test_secrets_and_ports_last_over_restarts(tmp_path: Path) -> None:
    first, second = compose(tmp_path), compose(tmp_path)
    assert first.settings.secret_key == second.settings.secret_key
    assert first.ports == second.ports
    assert first.variables["RESURGE_INSTANCE"] != second.variables["RESURGE_INSTANCE"]
    for name in ("environment", "ports.json"):
        assert stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) == 0o600
    again = recorded(tmp_path)
    assert again is not None
    assert again.variables == second.variables


def test_servers_named_by_the_operator_are_not_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESURGE_REDIS_URL", "redis://elsewhere:6379/1")
    monkeypatch.setenv("RESURGE_REPLACEMENT_DELAY", "fixed:30")
    installation = compose(tmp_path)
    assert installation.embedded == {"zookeeper", "spark-master"}
    assert installation.settings.redis_url == "redis://elsewhere:6379/1"
    assert installation.settings.replacement_delay.low == 30


def test_data_stays_where_the_last_start_had_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {
        "RESURGE_DATABASE_URL": "postgres://resurge:secret@db/resurge",
        "RESURGE_ZOOKEEPER": "zk-1:2181",
        "RESURGE_CHECKPOINTS": "redis://store:6379/0",
        "RESURGE_CHECKPOINTS_PASSWORD": "secret",
        "RESURGE_OUTPUTS": "/mnt/outputs",
    }
    assert compose(tmp_path).lasting == ()
    with monkeypatch.context() as shell:
        for name, value in places.items():
            shell.setenv(name, value)
        assert compose(tmp_path).lasting == ()
    for _ in range(2):
        again = compose(tmp_path)
        assert again.lasting == tuple(places)
        assert places.items() <= again.variables.items()
        assert "zookeeper" not in again.embedded
    monkeypatch.setenv("RESURGE_CHECKPOINTS", "file:///mnt/checkpoints")
    moved = compose(tmp_path)
    assert moved.settings.checkpoints == "file:///mnt/checkpoints"
    assert moved.settings.checkpoints_password == "", "that of another server"


def test_a_start_that_names_nothing_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variables of its first start a deployment became a demo, whose nodes can be killed."""
    protection = {
        "RESURGE_FAULT_INJECTION": "0",
        "RESURGE_HTTPS": "1",
        "RESURGE_ALLOWED_HOSTS": "resurge.example.org",
        "RESURGE_MASK_COLUMNS": "user",
    }
    assert compose(tmp_path).settings.https is False
    with monkeypatch.context() as shell:
        for name, value in protection.items():
            shell.setenv(name, value)
        compose(tmp_path)
    again = compose(tmp_path)
    assert again.lasting == tuple(protection)
    assert protection.items() <= again.variables.items()
    monkeypatch.setenv("RESURGE_HTTPS", "0")
    assert compose(tmp_path).settings.https is False


def test_the_own_zookeeper_is_no_place_that_was_named(tmp_path: Path) -> None:
    compose(tmp_path)
    (tmp_path / "run" / "ports.json").unlink()
    assert "zookeeper" in compose(tmp_path).embedded


def test_a_bad_value_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESURGE_PORT", "eighty")
    with pytest.raises(InvalidEnvironment, match="RESURGE_PORT"):
        compose(tmp_path)


def test_never_started(tmp_path: Path) -> None:
    assert recorded(tmp_path) is None


def test_home_moves_with_its_variable() -> None:
    assert home_directory({"RESURGE_HOME": "/srv/resurge"}) == Path("/srv/resurge")
    assert home_directory({}).name == "var"


def test_taken_port_is_named_with_the_remedy() -> None:
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ports.PortTakenError, match=f"port {port} .*RESURGE_PORT={port + 1}"):
            ports.require_free(port)
    ports.require_free(port)


def test_recorded_port_that_is_taken_is_replaced(tmp_path: Path) -> None:
    record = tmp_path / "ports.json"
    with socket.socket() as other:
        other.bind((ports.LOOPBACK, 0))
        other.listen()
        taken = other.getsockname()[1]
        record.write_text(f'{{"zookeeper": {taken}, "redis": {taken}}}')
        chosen = ports.choose(record, ("zookeeper", "redis"))
    assert taken not in chosen.values()
    assert len(set(chosen.values())) == 2


def test_damaged_ports_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text("[1]")
    assert ports.recorded_ports(tmp_path / "ports.json") == {}


def test_supervisor_configuration_names_every_program(tmp_path: Path) -> None:
    home = tmp_path / "100 % home"
    installation = compose(home)
    servers = server_programs(home, installation.ports, installation.settings, SERVERS)
    programs = [*servers, *control_programs(installation)]
    text = configuration_text(installation, programs, socket_path(home))
    parser = configparser.ConfigParser(interpolation=configparser.BasicInterpolation())
    parser.read_string(text)
    names = {section.partition(":")[2] for section in parser.sections() if section.startswith("program:")}
    assert names == {program.name for program in programs}
    assert names == {name for step in ORDER for name in step}, "each of them is stopped in some step"
    assert parser["program:redis"]["stdout_logfile"] == f"{home}/log/redis.log"
    assert all(parser[f"program:{name}"]["stopasgroup"] == "true" for name in names)
    assert parser["supervisord"]["umask"] == "077"
    given = SECRETS & installation.variables.keys()
    assert not [name for name in given if installation.variables[name] in text]
    for program in programs:
        emptied = set(re.findall(r'(\w+)=""', parser[f"program:{program.name}"].get("environment", "")))
        assert emptied == given - NEEDED[program.name]


@pytest.mark.parametrize("name", ["a ;b", "a #b"])
def test_a_home_of_whose_path_supervisord_would_read_a_part_is_refused(tmp_path: Path, name: str) -> None:
    """It would write to a file that is not its own."""
    home = tmp_path / name
    installation = compose(home)
    with pytest.raises(InvalidEnvironment, match=r"for a comment\. Name a RESURGE_HOME"):
        configuration_text(installation, control_programs(installation), socket_path(home))


@pytest.mark.parametrize(
    ("https", "proxies", "believed"), [("0", "", False), ("0", "127.0.0.1", True), ("1", "", True)]
)
def test_who_stands_for_a_client(
    https: str, proxies: str, believed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESURGE_HTTPS", https)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", proxies)
    (web,) = (one for one in control_programs(compose(tmp_path)) if one.name == "web")
    options = uvicorn.main.make_context("uvicorn", list(web.command[3:])).params
    assert options["proxy_headers"] is believed


def test_an_installation_makes_secrets_for_its_own_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compose(tmp_path)
    again = compose(tmp_path)
    assert len({first.settings.zookeeper_secret, first.settings.spark_secret, first.settings.secret_key}) == 3
    for name in (KEY, ZOOKEEPER, SPARK):
        assert again.variables[name] == first.variables[name]
    assert len(urlsplit(first.settings.redis_url).password or "") > 40
    monkeypatch.setenv("RESURGE_SPARK_MASTER", "spark://elsewhere:7077")
    monkeypatch.setenv("RESURGE_ZOOKEEPER_SECRET", "a-secret-of-the-operator")
    other = compose(tmp_path)
    assert other.settings.spark_secret == "", "a master elsewhere may know none"
    assert other.settings.zookeeper_secret == "a-secret-of-the-operator"


def test_a_process_of_the_installation_gets_its_secrets_only(tmp_path: Path) -> None:
    installation = compose(tmp_path)
    assert SECRETS & installation.environment_of("manage").keys() == {KEY, REDIS, ZOOKEEPER}
    assert not SECRETS & installation.environment_of("sample").keys()


def test_zookeeper_accepts_short_sessions_and_large_values(tmp_path: Path) -> None:
    command = zookeeper_program(home=tmp_path, port=1).command
    assert f"-Djute.maxbuffer={LARGEST_REQUEST}" in command
    lines = (tmp_path / "zookeeper" / "zoo.cfg").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if line)
    assert int(values["minSessionTimeout"]) <= 2000
    assert int(values["tickTime"]) <= 500
    assert values["admin.enableServer"] == "false"
    assert values["clientPortAddress"] == "127.0.0.1"


def test_a_long_home_gets_a_socket_elsewhere(tmp_path: Path) -> None:
    assert socket_path(Path("/srv/resurge")) == Path("/srv/resurge/run/supervisor.sock")
    deep = tmp_path / ("d" * 90)
    assert len(str(socket_path(deep))) <= LONGEST_SOCKET_PATH
    assert socket_path(deep) != socket_path(deep / "other")


def test_the_box_is_straight() -> None:
    text = access_box(
        url="http://127.0.0.1:8000/",
        user="admin",
        password="x",
        access_file="/f",
        profile="roomy: room to spare",
        stop="make down",
        notes=(),
    )
    rows = [row for row in text.splitlines() if row]
    assert len({len(row) for row in rows}) == 1
    assert any("make down" in row for row in rows)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short path: a socket's may have 107 characters."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_of_another_user_is_not_taken_for_the_daemons(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short))
    home = tmp_path / ("d" * 90)
    path = socket_path(home)
    assert path.parent == short
    said = xmlrpc.client.dumps(({"statename": "RUNNING"},), methodresponse=True).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test has closed it
                    return
                # All of the question, which comes in parts: a client that is cut off gets no answer.
                asked = b""
                while b"</methodCall>" not in asked and (part := connection.recv(65_536)):
                    asked += part
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n\r\n" + said)
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        assert Supervisor(home).is_running()
        os.chown(path, 65_534, 65_534)
        assert not Supervisor(home).is_running()


@pytest.mark.parametrize(
    "lines", [["launcher starts"], ["a banner", "launcher starts"], ["launcher starts", "x"]]
)
def test_a_log_that_is_rotated_meanwhile_tells_that_a_process_is_ready(
    tmp_path: Path, lines: list[str]
) -> None:
    """Else the start waited in vain, and ended everything."""
    installation = compose(tmp_path)
    path = installation.logs / "launcher.log"
    path.write_text("launcher starts\n" + "x" * 980 + "\n")
    ready = log_says(installation, "launcher", "launcher starts")
    logger = loggers.getLogger()
    loggers.handle_file(logger, str(path), "%(message)s\n", rotating=True, maxbytes=1_000, backups=2)
    assert not ready(), "that was the start before"
    for line in lines:
        logger.info(line)
    logger.close()
    assert path.with_name("launcher.log.1").exists()
    assert ready()
