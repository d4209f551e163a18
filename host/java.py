"""Where Java and Spark's libraries are, and the flags that keep the virtual machines small."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from host.class_archive import archive_options, quoted, spark_class_path

# A control plane's JVMs live long and idle: the C1 compiler, one collector thread and the shared
# class archive start in half the time and take a third of the memory of the defaults.
SMALL_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xss512k")
# A driver and its executors run few tasks a second: with the usual thresholds their code is interpreted for
# minutes.
ENGINE_JVM = (
    "-XX:TieredStopAtLevel=1",
    "-XX:CompileThresholdScaling=0.2",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
)

# What Spark's processes reflect into; `spark-class` would add the same through one more JVM at each start.
_SPARK_OPENS = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
)


class MissingProgramError(RuntimeError):
    """A program that the installation needs is not on this machine; the message says what to do."""


def java_home() -> Path:
    """The Java runtime: `JAVA_HOME`, else the one the installation brought along, else `java` on the path."""
    named = os.environ.get("JAVA_HOME", "")
    for home in (Path(named) if named else None, Path(sys.prefix) / "java"):
        if home is not None and (home / "bin" / "java").is_file():
            return home
    found = shutil.which("java")
    if found:
        return Path(found).resolve().parents[1]
    raise MissingProgramError(
        "no Java runtime: run `make up`, which installs one, or set JAVA_HOME (17 or newer)"
    )


def spark_home() -> Path:
    """Directory of the installed PySpark, which carries Spark's and ZooKeeper's jars."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.origin:
        raise MissingProgramError(
            "this Python has no PySpark: run `make up`, or pip install -r requirements/runtime.txt"
        )
    return Path(found.origin).parent


def scala_version() -> str:
    """Binary version of the Scala library that Spark's jars are built for, such as `2.13`."""
    for jar in (spark_home() / "jars").glob("scala-library-*.jar"):
        return ".".join(jar.stem.removeprefix("scala-library-").split(".")[:2])
    raise MissingProgramError("PySpark is installed without its jars: install it again from its wheel")


def spark_variables(address: str) -> dict[str, str]:
    """Environment of a process of Spark that listens on `address`; `spark-class` would set the same. Without
    the Scala version a worker looks for a source tree when it builds an executor's command."""
    return {
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": scala_version(),
        "SPARK_LOCAL_IP": address,
        "JAVA_HOME": str(java_home()),
    }


def class_archive_options() -> str:
    """Flags of the shared class archive as one string; empty while there is none."""
    return quoted(archive_options(java_home() / "bin" / "java", spark_home()))


def jvm_command(main: str, *, heap_mb: int, options: Iterable[str] = ()) -> tuple[str, ...]:
    """Command line of a small JVM that runs `main` on Spark's class path."""
    return _command(main, (*SMALL_JVM, f"-Xmx{heap_mb}m", *options))


def spark_daemon_command(main: str, *, heap_mb: int, options: Iterable[str] = ()) -> tuple[str, ...]:
    """Command line of a Spark daemon (`Master`, `Worker`) without the detour through `spark-class`."""
    return jvm_command(main, heap_mb=heap_mb, options=(*_spark_options(), *options))


def spark_executor_command(*, memory: str, options: Iterable[str]) -> tuple[str, ...]:
    """Command line of an executor, up to its own arguments. memory: its heap, such as `768m`.

    Spark's worker would add `--add-modules=jdk.incubator.vector`, which only linear algebra uses and which
    keeps the JVM from taking its modules from the class archive.
    """
    flags = (*ENGINE_JVM, f"-Xmx{memory}", *_spark_options(), "-Dio.netty.allocator.type=pooled", *options)
    return _command("org.apache.spark.executor.CoarseGrainedExecutorBackend", flags)


def _command(main: str, options: Iterable[str]) -> tuple[str, ...]:
    java, spark = java_home() / "bin" / "java", spark_home()
    return (str(java), *archive_options(java, spark), *options, "-cp", spark_class_path(spark), main)


def _spark_options() -> tuple[str, ...]:
    return (
        "-XX:+IgnoreUnrecognizedVMOptions",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _SPARK_OPENS),
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djdk.reflect.useDirectMethodHandle=false",
        # Newer virtual machines warn of these, or refuse them.
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
    )
