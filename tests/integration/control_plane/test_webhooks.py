"""Webhooks on real processes: a Celery worker, Redis and beat that are killed, and a receiver that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.eventually import eventually
from tests.integration.control_plane.stack import Stack
from tests.unit.controlplane.webhooks.receiver import Handler, Receiver, hang

pytestmark = pytest.mark.integration

SET_UP = """
import django; django.setup()
from controlplane.webhooks.services import webhook_create
webhook_create(
    name="pager", url={url!r}, kinds=["node.lost"], actor="test", reason="a test", channel="system"
)
"""
PUBLISH = """
import django; django.setup()
from django.db import transaction
from controlplane.events.services import event_publish
with transaction.atomic():
    event_publish(kind="node.lost", node={node!r}, changes=[])
"""
# The lease of a worker that died, the sweep's interval, and slow starts on a busy machine.
PATIENCE = 90.0


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    one = Stack(tmp_path)
    one.environment["RESURGE_WEBHOOK_NETWORKS"] = "127.0.0.1"
    try:
        one.start("redis")
        one.manage("migrate", "--verbosity", "0", "--skip-checks")
        yield one
    finally:
        one.stop_all()


def test_nothing_is_lost_when_worker_and_redis_die(stack: Stack) -> None:
    with Receiver(answers=[500, 200]) as receiver:

        def nodes_heard() -> list[str]:
            return [got.data["data"]["node"] for got in receiver.got]

        def states() -> dict[int, str]:
            rows = stack.rows("select sequence, state from webhooks_delivery")
            return {row["sequence"]: row["state"] for row in rows}

        # Without beat there are two messages: that of the event, and that of the failed attempt.
        stack.start("webhooks")
        stack.python(SET_UP.format(url=receiver.url))
        stack.python(PUBLISH.format(node="node-1"))
        eventually(lambda: states() == {1: "succeeded"}, "500, then 200", PATIENCE)
        assert nodes_heard() == ["node-1", "node-1"]
        assert receiver.got[0].id == receiver.got[1].id

        # The worker is killed when the receiver has the request: sent, and not recorded.
        def kill(handler: Handler) -> None:
            stack.kill("webhooks")
            hang(handler)

        receiver.answers = [kill, 200]
        stack.python(PUBLISH.format(node="node-2"))
        eventually(lambda: "webhooks" not in stack.processes, "the worker's end", PATIENCE)
        stack.kill("redis")
        stack.python(PUBLISH.format(node="node-3"))
        assert states() == {1: "succeeded", 2: "pending", 3: "pending"}

        # Redis comes back without messages: the sweep finds the deliveries in the database.
        for name in ("redis", "webhooks", "beat"):
            stack.start(name)
        eventually(lambda: set(states().values()) == {"succeeded"}, "the sweep", PATIENCE)
        assert nodes_heard()[2:] == ["node-2", "node-2", "node-3"]
        assert receiver.got[2].id == receiver.got[3].id, "a receiver can drop what it has had"
        attempts = stack.rows(
            "select a.number, a.duration, a.error from webhooks_deliveryattempt a "
            "join webhooks_delivery d on d.id = a.delivery_id where d.sequence = 2 order by a.number"
        )
        assert [row["error"] for row in attempts] == ["the worker ended before the outcome was recorded", ""]
        assert attempts[0]["duration"] is None
