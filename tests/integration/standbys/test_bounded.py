"""A topology with a bounded guarantee on real processes: it goes on while a node is lost, a standby fetches
the states of the keys that come, and a storage that fails holds nothing up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.verification.extent import Extent, extent_read
from controlplane.verification.rates import SECOND
from controlplane.verification.verifying import topology_verify
from harness.roles import role_of
from harness.stack import Stack
from host.process_secrets import NEEDED, SECRETS
from tests.data import shared_data
from tests.integration.main_job.course import (
    EPOCH,
    FIELDS,
    RATE,
    advanced,
    healthy,
    homes_of,
    lose,
    standby_of,
    stopped,
)
from tests.integration.surface import processes, secrets_of

pytestmark = pytest.mark.integration

EVERY = 6.0
BYPASS = 5.0
WHOLE_S = 15
"""Seconds in which a window of 10 s, one of which begins every 5 s, lies as a whole."""
MANY = 1_000_000
"""More than there are rows."""
BOUNDED: dict[str, Any] = {
    **FIELDS,
    "guarantee": "bounded",
    "key_saving": {"every": f"{EVERY:g}s", "failures": 3, "bypass_s": BYPASS},
}


@pytest.fixture(scope="module", autouse=True)
def deployed(stack: Stack) -> Iterator[None]:
    stack.deploy("hashtags", input=shared_data("tweets.parquet"), rate=RATE, **BOUNDED)
    healthy(stack)
    yield
    stopped(stack)


def keys(stack: Stack, figure: str) -> int:
    return sum(int(node[figure]) for node in stack.topology()["keys"].values())


def test_it_goes_on_without_a_lost_node_and_fetches_keys(stack: Stack) -> None:
    stack.wait_for(lambda: keys(stack, "stored") > 1_000, "states of keys in storage", timeout=90)
    assert stack.topology()["checkpoint_epoch"] == 0
    standby, homes = standby_of(stack), homes_of(stack)
    lost = homes["O0[0]"]
    stack.wait_for(lambda: covered(extent(stack)) >= WHOLE_S, "a whole window")
    before = extent(stack)
    lose(stack, lost)
    again = healthy(stack)["head_epoch"]
    assert standby in set(homes_of(stack).values()) - set(homes.values())
    assert not stack.nodes()[standby]["standby"], "it took over"
    stack.wait_for(lambda: extent(stack).epoch > again, "an epoch with all partitions")
    after = extent(stack)
    advanced(stack, round(3 * EVERY / EPOCH))
    assert keys(stack, "fetched") > 10
    assert stack.topology()["keys"][standby]["fetched"] > 10
    deviation(stack, before, after)


def test_keepers_have_the_secrets_they_need(stack: Stack) -> None:
    keepers = [pid for pid in processes(stack) if role_of(pid) == "keeper"]
    assert len(keepers) == len(set(homes_of(stack).values()))
    given = SECRETS & stack.installation.variables.keys()
    for pid in keepers:
        assert secrets_of(pid, SECRETS) == NEEDED["keeper"] & given


def extent(stack: Stack) -> Extent:
    return extent_read(stack.home / "topologies" / "hashtags" / "epochs.log")


def covered(extent: Extent) -> float:
    """Seconds from the first tuple to the watermark."""
    return 0.0 if extent.watermark is None else (extent.watermark - extent.origin_us) / SECOND


def deviation(stack: Stack, before: Extent, after: Extent) -> None:
    """Something was lost, and windows count nothing twice. Exact are windows that ended before the node was
    lost, and those that began after its partitions were taken over; all others may have lost their keys."""
    spec = stack.topology()["spec"]
    outputs = stack.home / "outputs"
    found = topology_verify(spec=spec, home=stack.home, outputs=outputs, examples=MANY)
    assert before.watermark is not None
    assert after.watermark is not None
    assert found.watermark_us is not None
    assert found.watermark_us - after.watermark >= WHOLE_S * SECOND, "a window began and ended afterwards"
    counting = {one["name"] for one in spec["operators"] if one["kind"].endswith("_window")}
    windows = [query for query in found.queries if query.operator in counting]
    assert windows, "some queries are windows"
    assert not all(query.clean for query in windows)
    for query in windows:
        assert query.duplicate == query.unexpected == 0
        assert query.missing + query.different == len(query.examples)
        for fault in query.examples:
            start, end = fault.row["window_start"], fault.row["window_end"]
            assert end > before.watermark, (query.operator, fault)
            assert start < after.watermark, (query.operator, fault)
            assert fault.kind == "missing" or fault.found < fault.expected


def test_a_storage_that_fails_holds_nothing_up(stack: Stack) -> None:
    storage = stack.home / "checkpoints"
    aside = storage.with_name("aside")
    storage.rename(aside)
    storage.write_bytes(b"in the place of the directory")
    try:
        stack.wait_for(
            lambda: any(node["storing_bypassed_until"] for node in stack.topology()["keys"].values()),
            "a bypass",
            timeout=90,
        )
        assert any(node["error"] for node in stack.topology()["keys"].values())
        advanced(stack, round(2 * EVERY / EPOCH))
        healthy(stack)
        stored = keys(stack, "stored")
    finally:
        storage.unlink()
        aside.rename(storage)
    stack.wait_for(lambda: keys(stack, "stored") > stored, "states of keys in storage again", timeout=60)
    stack.wait_for(
        lambda: not any(node["storing_failures"] for node in stack.topology()["keys"].values()),
        "all nodes to store again",
        timeout=60,
    )
