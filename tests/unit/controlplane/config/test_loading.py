"""The web process starts without what only files and specifications need."""

from __future__ import annotations

import json
import subprocess
import sys

from host.environment import ROOT

PROBE = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.config.settings"
import django
django.setup()
import controlplane.config.urls
print(json.dumps(sorted(sys.modules)))
"""


def test_it_loads_neither_arrow_nor_duckdb() -> None:
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", PROBE], cwd=ROOT).splitlines()[-1])
    assert "controlplane.api.operators.views" in loaded
    for name in ("duckdb", "pyarrow", "pyspark"):
        assert name not in loaded
