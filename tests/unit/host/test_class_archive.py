from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from host.class_archive import (
    archive_options,
    archive_path,
    class_path_once,
    merge_class_lists,
    quoted,
    spark_class_path,
)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A Java program and a PySpark directory; archives go below `tmp_path`."""
    java, spark = tmp_path / "jdk" / "java", tmp_path / "pyspark"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    (spark / "jars").mkdir(parents=True)
    (spark / "jars" / "slf4j-api-2.0.17.jar").touch()
    (spark / "jars" / "another.jar").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return java, spark


def made(java: Path, spark: Path) -> Path:
    path = archive_path(java, spark)
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def test_class_path_is_that_of_executors(places: tuple[Path, Path]) -> None:
    _, spark = places
    assert spark_class_path(spark) == f"{spark}/conf/:{spark}/jars/slf4j-api-2.0.17.jar:{spark}/jars/*"


def test_a_jar_that_comes_again_ends_the_class_path_for_newer_jvms(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, spark = places
    order = ["another.jar", "README", "slf4j-api-2.0.17.jar", "later.jar"]
    monkeypatch.setattr(os, "listdir", lambda _: order)
    jars = spark / "jars"
    assert class_path_once(spark) == f"{spark}/conf/:{jars}/slf4j-api-2.0.17.jar:{jars}/another.jar"


def test_no_archive_no_flags(places: tuple[Path, Path], tmp_path: Path) -> None:
    assert archive_options(*places, {}) == ()
    assert archive_options(tmp_path / "no java here", tmp_path, {}) == ()


def test_an_archive_is_named(places: tuple[Path, Path]) -> None:
    path = made(*places)
    assert archive_options(*places, {}) == (f"-XX:SharedArchiveFile={path}", "-Xlog:cds=off")


def test_another_configuration_directory_is_another_class_path(places: tuple[Path, Path]) -> None:
    made(*places)
    assert archive_options(*places, {"SPARK_CONF_DIR": "/etc/spark"}) == ()
    assert archive_options(*places, {"SPARK_CONF_DIR": ""}) != ()


def test_another_java_or_pyspark_needs_another_archive(places: tuple[Path, Path]) -> None:
    java, spark = places
    first = archive_path(java, spark)
    assert archive_path(java, spark) == first
    os.utime(spark / "jars", (1_000_000_000, 1_000_000_000))
    second = archive_path(java, spark)
    java.write_text("#!/bin/sh\nexec other\n")
    assert len({first, second, archive_path(java, spark)}) == 3


def test_less_than_a_second_makes_no_difference(places: tuple[Path, Path]) -> None:
    java, spark = places
    os.utime(java, ns=(10**18, 10**18))
    first = archive_path(java, spark)
    os.utime(java, ns=(10**18 + 999_999_999, 10**18 + 999_999_999))
    assert archive_path(java, spark) == first


def test_options_survive_spaces() -> None:
    options = ("-XX:SharedArchiveFile=/a directory/x.jsa", "-Xlog:cds=off")
    assert shlex.split(quoted(options)) == list(options)
    assert quoted(()) == ""


def test_class_lists_are_merged() -> None:
    first = "# NOTE\njava/lang/Object id: 0\nscala/Some id: 7\n@lambda-proxy scala/Some apply ()V\n"
    second = "java/lang/Object id: 0\nscala/None id: 7\nown/Loaded id: 9 super: 0 source: own.jar\n\n"
    assert merge_class_lists([first, second]).splitlines() == [
        "java/lang/Object",
        "scala/Some",
        "@lambda-proxy scala/Some apply ()V",
        "scala/None",
    ]
