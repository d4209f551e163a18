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
print(json.dumps([threads, [name in sys.modules for name in ("spark_jobs.executor.task", "pyspark.worker")]]))
"""
# Started again after a fork by jemalloc itself.
SURVIVES = "jemalloc_bg_thd"


def test_nothing_is_left_to_import_and_no_thread_is_lost() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    threads, loaded = json.loads(done.stdout)
    assert len([name for name in threads if name != SURVIVES]) == 1, threads
    assert loaded == [True, True]
