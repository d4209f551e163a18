"""The examples of docs/outputs.md read what is committed, each row once, with three readers."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from domain.topology.spec import ParquetSinkSpec
from host.environment import ROOT
from spark_jobs.sinks.parquet_sink import ParquetSink
from tests.java import java_end

pytestmark = pytest.mark.integration


def examples() -> dict[str, str]:
    """The Python of the document by the word before it."""
    text = (ROOT / "docs" / "outputs.md").read_text(encoding="utf-8")
    return dict(re.findall(r"(\w+):\n\n```python\n(.*?)```", text, re.S))


def run(code: str, names: dict[str, Any]) -> None:
    exec(code, names)  # noqa: S102 - what is tried is what the document says


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twelve committed epochs, ten of them in two files, and one that is not committed."""
    spec = ParquetSinkSpec(compact_s=5.0)
    sink = ParquetSink(tmp_path / "var" / "outputs", "hashtags", spec, operators=["O0"])
    sink.prepare(deployed=1, life=1)
    task = sink.outputs(deployed=1, attempt=0, life=1)
    for epoch in range(1, 14):
        for partition in (0, 1):
            table = pa.table({"window_end": [epoch], "key": [f"k{epoch}"], "count": [epoch]})
            task.write("O0", partition, epoch, table)
    assert not task.settle()
    sink.commit(epoch=12)
    sink.put_in_order(12)
    sink.close()
    return tmp_path


def test_the_examples_of_the_document(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    code = examples()
    assert code.keys() == {"meanwhile", "DuckDB", "pandas", "Spark"}
    names: dict[str, Any] = {}
    run(code["meanwhile"], names)
    assert len(names["files"]) == 2 * (2 + 2)
    expected = sorted(f"k{epoch}" for epoch in range(1, 13) for _ in range(2))
    run(code["DuckDB"], names)
    assert sorted(names["top"]) == sorted((f"k{epoch}", 2 * epoch) for epoch in range(1, 13))
    run(code["pandas"], names)
    assert sorted(names["rows"]["key"]) == expected
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs when the interpreter has closed its output
    with SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate() as spark:
        names["spark"], gateway = spark, spark.sparkContext._gateway
        run(code["Spark"], names)
        assert sorted(row["key"] for row in names["rows"].collect()) == expected
    java_end(gateway)
