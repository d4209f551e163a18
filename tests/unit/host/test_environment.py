from __future__ import annotations

import random
import subprocess
import sys

import pytest

from host.environment import Delay, InvalidEnvironment, Keep, database_parse, read


def test_defaults_are_those_of_the_design() -> None:
    environment = read({})
    assert environment.port == 8000
    assert environment.session_timeout == 4.0
    assert environment.theta == 1.2
    assert environment.correlation_threshold == 2
    assert environment.fault_injection is False
    assert environment.operator_modules == ("spark_jobs.operators",)
    assert environment.database_url.endswith("/db/resurge.sqlite3")


def test_home_moves_everything() -> None:
    environment = read({"RESURGE_HOME": "/srv/resurge"})
    assert environment.database_url == "sqlite:////srv/resurge/db/resurge.sqlite3"
    assert environment.outputs == "/srv/resurge/outputs"
    assert environment.checkpoints == "file:///srv/resurge/checkpoints"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RESURGE_PORT", "0"),
        ("RESURGE_PORT", "http"),
        ("RESURGE_PORT", "8000.5"),
        ("RESURGE_THETA", "0.5"),
        ("RESURGE_THETA", "inf"),
        ("RESURGE_THETA", "nan"),
        ("RESURGE_LOGIN_LOCK", "999999999999d"),
        ("RESURGE_CORRELATION_WINDOW", "99999999999w"),
        ("RESURGE_REPLACEMENT_DELAY", "fixed:inf"),
        ("RESURGE_REPLACEMENT_DELAY", "uniform:1:1e12"),
        ("RESURGE_DATABASE_URL", "postgres://ada:p[w@db/resurge"),
        ("RESURGE_DATABASE_URL", "sqlite://resurge.sqlite3"),
        ("RESURGE_OUTPUTS", "results"),
        ("RESURGE_OUTPUTS", "s3://bucket/results"),
        ("RESURGE_CHECKPOINTS", "checkpoints"),
        ("RESURGE_CHECKPOINTS", "file://checkpoints"),
        ("RESURGE_REDIS_URL", "localhost:6379"),
        ("RESURGE_SESSION_TIMEOUT", "soon"),
        ("RESURGE_SESSION_TIMEOUT", "0"),
        ("RESURGE_FORGET_NODES_AFTER", "-1"),
        ("RESURGE_FORGET_NODES_AFTER", "inf"),
        ("RESURGE_MAX_UTILISATION", "1.5"),
        ("RESURGE_FAULT_INJECTION", "maybe"),
        ("RESURGE_CPU_CAPS", "sometimes"),
        ("RESURGE_REPLACEMENT_DELAY", "normal:1:2"),
        ("RESURGE_PROVIDER", "cloud"),
        ("RESURGE_PROVIDER", "script"),
        ("RESURGE_PROVIDER_SCRIPT", "bin/nodes"),
        ("RESURGE_REPLACEMENT_DELAY", "uniform:9:2"),
        ("RESURGE_DATABASE_URL", "mysql://somewhere/x"),
        ("RESURGE_LOG_LEVEL", "loud"),
        ("RESURGE_ZOOKEEPER_SECRET", "too-short"),
        ("RESURGE_SPARK_SECRET", 'with "quotes" and spaces'),
        ("RESURGE_DRIVER_HOST", "spark://10.0.0.5"),
        ("RESURGE_DRIVER_HOST", "10.0.0.5:7078"),
        ("RESURGE_DRIVER_HOST", "two hosts"),
        ("RESURGE_DRIVER_HOST", "0.0.0.0"),  # noqa: S104 - refused
        ("RESURGE_DRIVER_HOST", "[::]"),
        ("RESURGE_WEBHOOK_NETWORKS", "10.0.0.1/8"),
        ("RESURGE_WEBHOOK_NETWORKS", "10.0.0.0/8,intranet"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidEnvironment, match=name):
        read({name: value})


@pytest.mark.parametrize(("text", "seconds"), [("7200", 7200.0), ("2h", 7200.0), ("0", 0.0), ("500ms", 0.5)])
def test_durations_may_have_a_unit(text: str, seconds: float) -> None:
    assert read({"RESURGE_FORGET_NODES_AFTER": text}).forget_nodes_after == seconds


@pytest.mark.parametrize("host", ["10.0.0.5", "driver-1.example.org", "localhost", "[2001:db8::7]"])
def test_the_driver_is_found_at_the_address_given(host: str) -> None:
    assert read({"RESURGE_DRIVER_HOST": host}).driver_host == host
    assert read({}).driver_host == "127.0.0.1"


def test_webhooks_reach_no_private_network_unless_it_is_named() -> None:
    assert read({}).webhook_networks == ()
    named = read({"RESURGE_WEBHOOK_NETWORKS": "10.1.0.0/16, 127.0.0.1,fd00::/8"}).webhook_networks
    assert [str(network) for network in named] == ["10.1.0.0/16", "127.0.0.1/32", "fd00::/8"]


def test_database_urls() -> None:
    assert database_parse("sqlite:///x/y.sqlite3")["NAME"] == "/x/y.sqlite3"
    parsed = database_parse("postgres://ada:s%40crt@db.example:5433/resurge")
    assert parsed["ENGINE"] == "django.db.backends.postgresql"
    assert (parsed["USER"], parsed["PASSWORD"], parsed["HOST"], parsed["PORT"], parsed["NAME"]) == (
        "ada",
        "s@crt",
        "db.example",
        5433,
        "resurge",
    )
    parsed = database_parse(
        "postgres://ada@db.example/resurge?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem"
    )
    assert parsed["OPTIONS"] == {"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"}
    assert database_parse("postgres:///resurge?host=/run/postgresql")["HOST"] == ""


def test_delays_are_drawn_within_their_bounds() -> None:
    delay = Delay.parse("uniform:6:15")
    assert all(6 <= delay.draw(random.Random(seed)) <= 15 for seed in range(50))
    assert Delay.parse("fixed:3").draw(random.Random(1)) == 3


def test_the_environment_can_be_read_without_django() -> None:
    code = "import sys, host.environment as e; e.read(); sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_bounds_of_what_is_kept() -> None:
    kept = read({"RESURGE_KEEP_AUDIT": "36h/7"}).keep_audit
    assert (kept.age, kept.size, str(kept)) == (129_600.0, 7, "36h/7")
    assert [str(Keep.parse(text)) for text in ("90d/1", "1h/2", "90m/3", "0d/0")] == [
        "90d/1",
        "1h/2",
        "90m/3",
        "0d/0",
    ]
    for text in ("90", "90d", "d/1", "90d/-1", "1.5d/1", "90w/1", "90d/1 000", "٣d/1"):
        with pytest.raises(InvalidEnvironment, match=r"RESURGE_KEEP_AUDIT.*write <age>/<size>"):
            read({"RESURGE_KEEP_AUDIT": text})


def test_a_bad_secret_is_not_repeated() -> None:
    with pytest.raises(InvalidEnvironment) as told:
        read({"RESURGE_SPARK_SECRET": "half a secret"})
    assert "half" not in str(told.value)
    settings = read({"RESURGE_SPARK_SECRET": "a-whole-secret-of-spark"})
    assert "a-whole-secret" not in repr(settings)


@pytest.mark.parametrize(
    "place",
    [
        "/srv/checkpoints",
        "~/checkpoints",
        "file:///srv/checkpoints",
        "s3://bucket/path",
        "simplecache::s3://b/p",
    ],
)
def test_checkpoints_are_kept_where_each_process_finds_them(place: str) -> None:
    assert read({"RESURGE_CHECKPOINTS": place}).checkpoints == place


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_variable_is_not_given(value: str) -> None:
    """Of HTTPS and forcing to disk it switched off what is on by default."""
    settings = read({"RESURGE_HTTPS": value, "RESURGE_FORCE_TO_DISK": value, "RESURGE_PORT": value})
    assert (settings.https, settings.force, settings.port) == (True, True, 8000)
