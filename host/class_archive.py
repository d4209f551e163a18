"""The shared class archive: Spark's classes as the virtual machine keeps them in memory, parsed once.

A JVM that maps it needs about half the processor time to start. An archive is valid only for the Java and the
class path it was made with, which its file name encodes; every JVM here has the same class path. `python -m
supervision.class_archive_build` makes it. Without one, everything works and starts slower.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

# With one of these, Spark gives executors and drivers another class path than `spark_class_path`.
_OTHER_CLASS_PATH = ("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def spark_class_path(spark: Path) -> str:
    """The class path Spark gives its executors and drivers, to the letter: its configuration directory
    (PySpark has none), the logging interface, all jars."""
    jars = spark / "jars"
    first = [str(jar) for jar in sorted(jars.glob("slf4j-api-*.jar"))]
    return ":".join((f"{spark / 'conf'}/", *first, f"{jars}/*"))


def class_path_once(spark: Path) -> str:
    """The part of `spark_class_path` before the logging interface comes a second time, among all jars.

    Newer JVMs refuse an archive whose class path has the same jar twice, but accept one for its beginning.
    """
    jars = spark / "jars"
    first = {str(jar) for jar in jars.glob("slf4j-api-*.jar")}
    parts = spark_class_path(spark).split(":")[:-1]
    # The order of the directory, as the JVM's own expansion of the asterisk has it.
    for name in os.listdir(jars):
        if str(jars / name) in first:
            break
        if name.endswith(".jar"):
            parts.append(str(jars / name))
    return ":".join(parts)


def archive_path(java: Path, spark: Path) -> Path:
    """Where the archive for this Java program and PySpark belongs: beside the Python packages.

    Raises `OSError` when either is not there. Whole seconds: an image's layers keep no more.
    """
    program, jars = java.resolve(), spark / "jars"
    about_java, about_jars = program.stat(), jars.stat()
    identity = "\n".join(
        (
            *(str(program), str(about_java.st_size), str(about_java.st_mtime_ns // 10**9)),
            *(spark_class_path(spark), str(about_jars.st_mtime_ns // 10**9)),
        )
    )
    return Path(sys.prefix) / "java-archives" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def archive_options(java: Path, spark: Path, variables: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Flags that map the archive; none while there is no archive for this Java and class path."""
    given = os.environ if variables is None else variables
    if any(given.get(name) for name in _OTHER_CLASS_PATH):
        return ()
    try:
        path = archive_path(java, spark)
    except OSError:
        return ()
    # The JVM silently ignores an archive that does not fit (a jar was replaced).
    return (f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off") if path.is_file() else ()


def quoted(options: Iterable[str]) -> str:
    """Options as one string for Spark's `extraJavaOptions` and for JDK_JAVA_OPTIONS."""
    return " ".join(f'"{option}"' if " " in option else option for option in options)


def merge_class_lists(texts: Iterable[str]) -> str:
    """One class list from those of several JVMs, each class once, in the order first met.

    The numbers that newer JVMs give to classes belong to one list only and are left out; classes of
    loaders other than the class path's cannot do without and are left out with them.
    """
    lines: dict[str, None] = {}
    for text in texts:
        for line in text.splitlines():
            if not line or line.startswith("#") or " source: " in line:
                continue
            lines[line if line.startswith("@") else line.partition(" ")[0]] = None
    return "".join(f"{line}\n" for line in lines)
