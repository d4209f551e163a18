"""The values of one installation: chosen at `make up`, kept in `run/`, given to every process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from host.environment import ROOT, Environment, read
from host.java import java_home
from host.private import write_private
from host.process_secrets import CHECKPOINTS, DATABASE, EXECUTOR, KEY, SPARK, ZOOKEEPER, environment_for
from supervision import ports
from supervision.ports import LOOPBACK
from supervision.profiles import ROOMY

# Defaults of a demo on one machine, which shows failures. A real deployment sets its own.
DEMO = {
    "RESURGE_FAULT_INJECTION": "1",
    "RESURGE_HTTPS": "0",
}
INSTANCE = "RESURGE_INSTANCE"
COORDINATION = "RESURGE_ZOOKEEPER"
STORAGE = "RESURGE_CHECKPOINTS"
PLACES = (DATABASE, COORDINATION, STORAGE, CHECKPOINTS, "RESURGE_OUTPUTS")
"""Where what lasts is kept. A start that took other places would find nothing of it there."""
PROTECTION = (*DEMO, "RESURGE_ALLOWED_HOSTS", "RESURGE_MASK_COLUMNS")
"""What a start that has forgotten it would open to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`variables` is the environment every process gets besides that of the shell; `settings` the
    same, typed. `embedded` names the servers that run here (the others were named by the operator), `lasting`
    what the last start was told, and this one is not, of places of data and protection."""

    home: Path
    variables: dict[str, str]
    settings: Environment
    ports: dict[str, int]
    embedded: frozenset[str]
    lasting: tuple[str, ...] = ()

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def logs(self) -> Path:
        return self.home / "log"

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.settings.port}/"

    def environment_of(self, role: str) -> dict[str, str]:
        """The environment of a process, with the secrets that this role needs (`host.process_secrets`)."""
        return environment_for(role, self.environment_with_all_secrets)

    @property
    def environment_with_all_secrets(self) -> dict[str, str]:
        return {
            # Spark would take the secret of another cluster for ours.
            **{name: value for name, value in os.environ.items() if name != EXECUTOR},
            **self.variables,
            "JAVA_HOME": str(java_home()),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        }


def home_directory(variables: Mapping[str, str] | None = None) -> Path:
    """RESURGE_HOME, or `var` beside the code."""
    named = (os.environ if variables is None else variables).get("RESURGE_HOME", "").strip()
    return (Path(named).expanduser() if named else ROOT / "var").resolve()


def compose(home: Path, defaults: Mapping[str, str] = ROOMY.settings) -> Installation:
    """Choose the values of a start: the shell's first, then those of the last start that must last (the
    secrets, the ports, the places of data, protection), then `defaults` (the settings of a profile) and those
    of every demo. Writes `run/environment` and `run/ports.json` (mode 600).

    Raises `InvalidEnvironment` for a value that cannot be used and `OSError` for an unwritable home.
    """
    for directory in ("run", "log", "db", "input"):
        (home / directory).mkdir(parents=True, exist_ok=True)
    previous = recorded_variables(home)
    given = {name: value for name, value in os.environ.items() if name.startswith("RESURGE_") and value}
    kept = _lasting(previous, given)
    given |= kept
    embedded = {
        server
        for server, variable in (
            ("zookeeper", COORDINATION),
            ("redis", "RESURGE_REDIS_URL"),
            ("spark-master", "RESURGE_SPARK_MASTER"),
        )
        if variable not in given
    }
    chosen = ports.choose(home / "run" / "ports.json")
    # Another master than the embedded one may know no secret.
    lasting = (KEY, ZOOKEEPER, *([SPARK] if "spark-master" in embedded else []))
    variables = {
        **DEMO,
        **defaults,
        "RESURGE_PORT": "8000",
        **{name: previous.get(name) or secrets.token_urlsafe(48) for name in lasting},
        COORDINATION: f"{LOOPBACK}:{chosen['zookeeper']}",
        "RESURGE_REDIS_URL": redis_url(chosen["redis"]),
        "RESURGE_SPARK_MASTER": f"spark://{LOOPBACK}:{chosen['spark_master']}",
        **given,
        "RESURGE_HOME": str(home),
        # Marks every process of this start.
        INSTANCE: secrets.token_hex(8),
    }
    settings = read(variables)
    chosen["web"] = settings.port
    write_private(home / "run" / "ports.json", msgspec.json.encode(chosen))
    variables_record(home, variables)
    return Installation(
        home=home,
        variables=variables,
        settings=settings,
        ports=chosen,
        embedded=frozenset(embedded),
        lasting=tuple(kept),
    )


def _lasting(previous: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The places and the protection that the last start was told and this one is not."""
    found = {
        name: previous[name]
        for name in (*PLACES, *PROTECTION)
        if name in previous and name not in given and previous[name] != DEMO.get(name)
    }
    if found.get(COORDINATION, "").startswith(f"{LOOPBACK}:"):  # as a rule its own, at this start's port
        del found[COORDINATION]
    if STORAGE in given:
        found.pop(CHECKPOINTS, None)  # the password of another server
    return found


def redis_url(port: int) -> str:
    """Address of an embedded Redis with a new password."""
    return f"redis://:{secrets.token_urlsafe(32)}@{LOOPBACK}:{port}/0"


def recorded(home: Path) -> Installation | None:
    """The installation as its last start wrote it; None when it was never started."""
    variables = recorded_variables(home)
    if INSTANCE not in variables:
        return None
    return Installation(
        home=home,
        variables=variables,
        settings=read(variables),
        ports=ports.recorded_ports(home / "run" / "ports.json"),
        embedded=frozenset(),
    )


def variables_record(home: Path, variables: Mapping[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in sorted(variables.items()))
    write_private(home / "run" / "environment", text.encode())


def recorded_variables(home: Path) -> dict[str, str]:
    try:
        lines = (home / "run" / "environment").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)
