"""The configuration that is written for Flink."""

from __future__ import annotations

from pathlib import Path

import yaml

from benchmarks.flink.configuration import Ports, configuration, yaml_text


def test_the_text_gives_each_option_back_as_it_is() -> None:
    options = configuration(home=Path("/some/home"), ports=Ports(rpc=4001, rest=4002), parallelism=5)
    assert yaml.safe_load(yaml_text(options)) == options


def test_everything_listens_on_the_loopback_address() -> None:
    options = configuration(home=Path("/some/home"), ports=Ports(rpc=4001, rest=4002), parallelism=5)
    hosts = {name: value for name, value in options.items() if name.endswith(("address", "host"))}
    assert set(hosts.values()) == {"127.0.0.1"}
    assert hosts.keys() >= {"jobmanager.bind-host", "taskmanager.bind-host", "rest.bind-address"}


def test_files_are_below_the_home() -> None:
    options = configuration(home=Path("/some/home"), ports=Ports(rpc=4001, rest=4002), parallelism=5)
    assert options["execution.checkpointing.dir"] == "file:///some/home/checkpoints"
