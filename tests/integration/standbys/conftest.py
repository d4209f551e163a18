"""An installation with two nodes and a standby. The node that takes the place of a standby comes late, so
that none takes part in a recovery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.stack import Stack

LATE = {"RESURGE_REPLACEMENT_DELAY": "uniform:60:61"}


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("standbys"), nodes=2, standbys=1, variables=LATE) as made:
        yield made
