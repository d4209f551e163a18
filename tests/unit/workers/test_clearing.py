"""What comes of a deleted topology after it was cleared. The clearing itself, with ZooKeeper:
`test_reconciliation.py` in `tests/integration/control_plane`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from django.utils import timezone

from controlplane.topologies.models import FormerTopology
from controlplane.topologies.services import topology_create
from coordination.paths import Paths
from host import environment
from spark_jobs.driver.epoch_log import epoch_log_directory
from spark_jobs.driver.only_driver import only_driver
from tests.unit.controlplane.specs import BY, spec_of
from workers.clearing import formers_clear_again


def test_what_an_agent_still_uploaded_when_a_topology_was_deleted_goes(tmp_path: Path, db: None) -> None:
    for name, hours in {"gone": 0.5, "long-gone": 1.5, "counts": 0.5, "driven": 0.5}.items():
        at = timezone.now() - timedelta(hours=hours)
        FormerTopology.objects.create(name=name, generation=3, cleared_at=at)
        (tmp_path / "saved" / name / "3" / "files" / "O1-0").mkdir(parents=True)
    topology_create(spec=spec_of(), **BY)
    znodes: list[str] = []
    coordination: Any = SimpleNamespace(exists=lambda path: False, delete_tree=znodes.append)
    home = replace(environment.read(), home=tmp_path, checkpoints=str(tmp_path / "saved"))
    with only_driver(epoch_log_directory(tmp_path, "driven"), "driven"):
        formers_clear_again(coordination, home)
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {"long-gone", "counts", "driven"}
    assert znodes == [Paths.topology("gone")]
