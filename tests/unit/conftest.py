"""What every unit test starts from."""

from __future__ import annotations

import pytest

from controlplane.api.events.sharing import snapshot
from controlplane.replication.answering import plans


@pytest.fixture(autouse=True)
def _nothing_of_another_test() -> None:
    """Tests take their changes back, so that the same number of events stands for another state, and the same
    keys for another topology."""
    snapshot.forget()
    plans.forget()
