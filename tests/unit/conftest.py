"""What every unit test starts from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from whitenoise.middleware import WhiteNoiseMiddleware

from controlplane.api.events.sharing import snapshot
from controlplane.replication.answering import plans


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_listed_once() -> Iterator[None]:
    """Each test client makes the middleware anew, which would look through all static files every time."""
    listed: dict[str, Any] = {}
    look_through = WhiteNoiseMiddleware.add_files_from_finders

    def add(middleware: Any) -> None:
        if not listed:
            look_through(middleware)
            listed.update(middleware.files)
        middleware.files.update(listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(autouse=True)
def _nothing_of_another_test() -> None:
    """Tests take their changes back, so that the same number of events stands for another state, and the same
    keys for another topology."""
    snapshot.forget()
    plans.forget()
