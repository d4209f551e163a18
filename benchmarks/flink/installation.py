"""Flink's distribution and the compiled job, in a cache directory that is made once.

The distribution is the package `apache-flink-libraries` (what PyFlink carries of Java), in a virtual
environment of its own; nothing of it is imported here. The job is compiled with the machine's `javac`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from host.java import MissingProgramError, java_home

VERSION = "2.3.0"
SOURCES = Path(__file__).parent / "java"
MAIN = "resurge.benchmark.HashtagJob"
# Flink's cluster programs reflect into these; its own start scripts open the same.
OPENS = (
    *("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text"),
    *("java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    "java.util.concurrent.locks",
)
# What the cluster needs of the distribution: the table libraries would only take memory.
NEEDED = ("flink-dist-*.jar", "log4j-*.jar")


class FlinkError(RuntimeError):
    """Flink could not be installed, started or measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`job`: the jar of the job. `archive`: classes that a node maps at its start, made by a first run."""

    java: Path
    jars: tuple[Path, ...]
    job: Path
    archive: Path

    def command(self, main: str, options: Sequence[str], arguments: Sequence[str]) -> list[str]:
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS]
        classes = ":".join(map(str, (*self.jars, self.job)))
        return [str(self.java), *options, *opens, "-cp", classes, main, *arguments]


def cache_directory() -> Path:
    """RESURGE_BENCHMARK_CACHE, else a directory of the user's cache."""
    named = os.environ.get("RESURGE_BENCHMARK_CACHE", "").strip()
    if named:
        return Path(named).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "resurge-benchmarks"


def install(note: Callable[[str], None]) -> Installation:
    """What is in the cache, or else install it there first. Raises `FlinkError`."""
    try:
        java = java_home() / "bin" / "java"
        compiler = compiler_find()
    except MissingProgramError as error:
        raise FlinkError(str(error)) from error
    cache = cache_directory() / f"flink-{VERSION}"
    environment = cache / "environment"
    jars = _jars(environment)
    if not jars:
        note(f"installing Flink {VERSION} (330 MB) into {environment}")
        shutil.rmtree(environment, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(environment))
        package = f"apache-flink-libraries=={VERSION}"
        _run(str(environment / "bin" / "python"), "-m", "pip", "install", "--no-deps", package)
        jars = _jars(environment)
    if not jars:
        raise FlinkError(f"the package apache-flink-libraries {VERSION} has no jars below {environment}")
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    job = cache / f"job-{digest}.jar"
    if not job.is_file():
        note("compiling the job")
        _compile(compiler, jars, sources, job)
    return Installation(java=java, jars=jars, job=job, archive=cache / f"classes-{digest}.jsa")


def compiler_find() -> Path:
    """`javac`. Raises `MissingProgramError`."""
    compiler = java_home() / "bin" / "javac"
    if compiler.is_file():
        return compiler
    found = shutil.which("javac")
    if found is None:
        raise MissingProgramError("no javac: the job is compiled with a JDK (17); set JAVA_HOME to one")
    return Path(found).resolve()


def _jars(environment: Path) -> tuple[Path, ...]:
    places = environment.glob("lib/python*/site-packages/pyflink/lib")
    return tuple(jar for lib in places for pattern in NEEDED for jar in sorted(lib.glob(pattern)))


def _compile(compiler: Path, jars: Sequence[Path], sources: Sequence[Path], target: Path) -> None:
    classes = target.with_suffix("")
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    path = ":".join(map(str, jars))
    _run(str(compiler), "--release", "17", "-cp", path, "-d", str(classes), *map(str, sources))
    partial = target.with_suffix(".partial")
    archiver = str(compiler.with_name("jar"))
    _run(archiver, "--create", "--file", str(partial), "--main-class", MAIN, "-C", str(classes), ".")
    partial.replace(target)
    shutil.rmtree(classes)


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-800:]
        raise FlinkError(f"{Path(command[0]).name} failed with code {done.returncode}: {said}")
