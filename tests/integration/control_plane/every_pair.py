"""Every pair of services that write, in either order, at the same moment on PostgreSQL. That takes about 20
minutes, so only `make test-long` runs it: `--only pairs`."""

from __future__ import annotations

import pytest

from tests.integration.control_plane.interleaving import pairs
from tests.integration.control_plane.postgresql import Filled
from tests.integration.control_plane.test_interleaving import filled, fresh, postgresql  # noqa: F401  (fixtures)
from tests.integration.control_plane.writing_services import EVERY

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("first", EVERY)
def test_every_pair(fresh: Filled, first: str) -> None:  # noqa: F811
    pairs(fresh, first, list(EVERY))
