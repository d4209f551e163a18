"""What executors need is made beside the jobs, once, and only what is wanted at last is used."""

from __future__ import annotations

import threading

from harness.eventually import eventually
from spark_jobs.driver.preparing import Preparing


class Maker:
    """Makes a text of the addresses when it is told to."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []
        self.dropped: list[str] = []
        self.go, self.cancelled = threading.Event(), threading.Event()
        self.preparing = Preparing(self.make, self.dropped.append, self.cancelled.set)

    def make(self, addresses: list[str]) -> str:
        self.made.append(addresses)
        while not self.go.wait(0.01):
            if self.cancelled.is_set():
                raise RuntimeError("cancelled")
        return "+".join(addresses)

    def ready(self, *addresses: str) -> bool:
        return self.preparing.ready(list(addresses))

    def take(self, *addresses: str) -> str | None:
        return self.preparing.take(list(addresses))


def test_it_is_made_once_and_taken_once() -> None:
    maker = Maker()
    assert not maker.ready("a", "b")
    assert not maker.ready("a", "b")
    assert maker.take("a", "b") is None, "it is not there yet"
    maker.go.set()
    eventually(lambda: maker.ready("a", "b"), "made")
    assert maker.made == [["a", "b"]]
    assert maker.take("a", "b") == "a+b"
    assert maker.take("a", "b") is None
    assert maker.dropped == []


def test_what_is_not_wanted_any_more_is_cancelled() -> None:
    maker = Maker()
    assert not maker.ready("a")
    assert not maker.ready("a", "b")
    assert maker.cancelled.is_set()
    maker.go.set()
    eventually(lambda: maker.ready("a", "b"), "made")
    assert maker.take("a", "b") == "a+b"


def test_what_was_made_in_vain_is_dropped() -> None:
    maker = Maker()
    maker.go.set()
    eventually(lambda: maker.ready("a"), "made")
    eventually(lambda: maker.ready("b"), "made, too")
    assert maker.dropped == ["a"]
    assert maker.take("c") is None
    assert maker.dropped == ["a", "b"]


def test_what_cannot_be_made_is_not_waited_for() -> None:
    maker = Maker()
    maker.cancelled.set()
    eventually(lambda: maker.ready("a"), "given up")
    assert maker.take("a") is None
