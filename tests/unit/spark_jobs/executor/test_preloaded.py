"""The process from which Python workers are forked has imported everything, and has no threads, which a fork
would lose. It starts as quickly as it can: a new node waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from host.environment import ROOT
from host.java import spark_home

PROBE = """
import gc, json, os, sys
import spark_jobs.executor.preloaded
threads = [open(f"/proc/self/task/{name}/comm").read().strip() for name in os.listdir("/proc/self/task")]
loaded = set(sys.modules)
from spark_jobs.executor.warm_up import STAGES, WarmUp
records = [(0, None)]
for stage in range(STAGES):
    records = list(WarmUp(stage)(0, iter(records)))
import pyarrow, pyspark
print(json.dumps({
    "threads": threads,
    "loaded by a task": sorted(set(sys.modules) - loaded),
    "loaded": sorted(loaded),
    "pyspark": pyspark.__file__,
    "path": sys.path,
    "collects garbage": gc.isenabled(),
}))
"""
# As Spark makes it for an executor.
ARCHIVES = (
    *(spark_home() / "python" / "lib").glob("*.zip"),
    *(spark_home() / "jars").glob("spark-core_*.jar"),
)
SERIES = """
import spark_jobs.executor.preloaded
import pandas, pyarrow
print(pyarrow.array(pandas.Series([1.0, float("nan")])).null_count)
"""
# Started again after a fork by jemalloc itself.
SURVIVES = "jemalloc_bg_thd"


def run(code: str, **variables: str) -> Any:
    environment = {name: value for name, value in os.environ.items() if name != "RESURGE_OPERATOR_MODULES"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, **variables},
    )
    return json.loads(done.stdout)


def test_nothing_is_left_to_import_and_no_thread_is_lost() -> None:
    """pyarrow loads parts of itself when a task first needs them."""
    found = run(PROBE)
    assert len([name for name in found["threads"] if name != SURVIVES]) == 1, found["threads"]
    assert found["loaded by a task"] == []
    assert {"pyspark.worker", "spark_jobs.executor.task"} <= set(found["loaded"])
    assert found["collects garbage"]


def test_pyspark_is_loaded_from_where_it_is_installed() -> None:
    """Not from the archive of its sources, which would be compiled at each start."""
    assert len(ARCHIVES) == 3
    here = os.pathsep.join(str(path) for path in (*ARCHIVES, ROOT))
    found = run(PROBE, SPARK_HOME=str(spark_home()), PYTHONPATH=here)
    assert Path(found["pyspark"]) == spark_home() / "__init__.py"
    assert not {str(path) for path in ARCHIVES} & set(found["path"])
    assert str(ROOT) in found["path"]
    assert found["loaded by a task"] == []


@pytest.mark.parametrize(("modules", "loaded"), [("spark_jobs.operators", False), ("of_a_user", True)])
def test_pandas_is_loaded_for_operators_of_users_only(modules: str, loaded: bool) -> None:
    assert ("pandas" in run(PROBE, RESURGE_OPERATOR_MODULES=modules)["loaded"]) == loaded


@pytest.mark.parametrize("module", ["spark_jobs.executor.preloaded", "spark_jobs.agent.__main__"])
def test_what_a_new_node_starts_loads_nothing_to_draw_logs_with(module: str) -> None:
    """structlog loads rich wherever it is installed, which takes a tenth of a second of CPU."""
    code = (
        f"import json, sys, {module}; print(json.dumps(sorted({{'rich', 'structlog'}} & set(sys.modules))))"
    )
    assert run(code) == ["structlog"]


def test_a_series_of_an_operator_of_a_user_is_one_of_pandas() -> None:
    """What is missing in it is null; in any other sequence it would be a number that is none."""
    assert run(SERIES, RESURGE_OPERATOR_MODULES="spark_jobs.operators,of_a_user") == 1
