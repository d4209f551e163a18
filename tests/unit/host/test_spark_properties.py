from __future__ import annotations

import stat
from pathlib import Path

from host.spark_properties import daemon_properties, daemon_properties_write


def test_a_daemon_takes_calls_from_those_who_know_the_secret_only(tmp_path: Path) -> None:
    path = tmp_path / "spark.properties"
    arguments = daemon_properties_write(path, "the-secret")
    assert arguments == ("--properties-file", str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    values = dict(line.split(" ", 1) for line in path.read_text().splitlines())
    assert values["spark.authenticate"] == "true"
    assert values["spark.authenticate.secret"] == "the-secret"
    assert values["spark.master.rest.enabled"] == values["spark.ui.killEnabled"] == "false"
    assert values["spark.master.ui.decommission.allow.mode"] == "DENY"
    assert values["spark.ui.filters"] == "org.apache.spark.ui.JWSFilter"


def test_pages_are_signed_with_another_key_each_time() -> None:
    key = "spark.org.apache.spark.ui.JWSFilter.param.secretKey"
    assert daemon_properties("s")[key] != daemon_properties("s")[key]


def test_a_master_elsewhere_without_a_secret_is_not_authenticated() -> None:
    assert "spark.authenticate" not in daemon_properties("")
