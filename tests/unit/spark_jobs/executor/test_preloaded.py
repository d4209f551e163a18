"""The process from which Python workers are forked has imported everything, and has no threads, which a fork
would lose."""

from __future__ import annotations

import json
import subprocess
import sys

PROBE = """
import json, os, sys
import spark_jobs.executor.preloaded
threads = [open(f"/proc/self/task/{name}/comm").read().strip() for name in os.listdir("/proc/self/task")]
loaded = set(sys.modules)
from spark_jobs.executor.warm_up import STAGES, WarmUp
records = [(0, None)]
for stage in range(STAGES):
    records = list(WarmUp(stage)(0, iter(records)))
print(json.dumps([threads, sorted(set(sys.modules) - loaded), "pyspark.worker" in loaded]))
"""
# Started again after a fork by jemalloc itself.
SURVIVES = "jemalloc_bg_thd"


def test_nothing_is_left_to_import_and_no_thread_is_lost() -> None:
    """A task takes what pyarrow loads only when it is needed, pandas among it."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    threads, loaded_by_a_task, worker = json.loads(done.stdout)
    assert len([name for name in threads if name != SURVIVES]) == 1, threads
    assert loaded_by_a_task == []
    assert worker
