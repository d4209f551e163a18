"""A storage that fails as storages do: at any step of what is asked of it, in any of these ways."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from spark_jobs.state.state_storage import StateStorage, UnavailableError

T = TypeVar("T")


class Fault(Enum):
    FAILS = "fails"
    """Nothing happens, and an error says so."""
    ANSWER_LOST = "answer lost"
    """It happens, and an error says that it did not."""
    BREAKS_OFF = "breaks off"
    """A part of an object is there under its name, and an error says that it is not stored."""
    PART = "part"
    """A part of an object is there, or is read, as if it were all."""
    NO_EFFECT = "no effect"
    """Nothing happens, as if it had."""
    HELD = "held"
    """It waits until it is released."""


WRITING = [fault for fault in Fault if fault is not Fault.HELD]


@dataclass(slots=True)
class Trouble:
    """The fault of a step, counted from 0. Later steps have none."""

    fault: Fault
    at: int
    step: int = 0
    met: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def now(self) -> Fault | None:
        """What becomes of the next step."""
        self.step += 1
        if self.step != self.at + 1:
            return None
        self.met = True
        if self.fault is Fault.HELD:
            self.reached.set()
            assert self.release.wait(30)
            return None
        return self.fault


class Faulty(StateStorage):
    """`inner`, each object of a batch in a step of its own. trouble: None while there is none. lists: what is
    listed, by directory, in the place of what is there."""

    def __init__(self, inner: StateStorage) -> None:
        super().__init__(inner.place)
        self.inner = inner
        self.trouble: Trouble | None = None
        self.lists: dict[str, dict[str, int | None]] | None = None

    def where(self, name: str) -> str:
        return self.inner.where(name)

    def put(self, files: Mapping[str, Path], then: Mapping[str, bytes]) -> set[str]:
        there: set[str] = set()
        for name, content in [*((name, path.read_bytes()) for name, path in files.items()), *then.items()]:
            fault = self._fault()
            if fault in (Fault.BREAKS_OFF, Fault.PART):
                there |= self.inner.put({}, {name: content[: len(content) // 2]})
            elif fault not in (Fault.FAILS, Fault.NO_EFFECT):
                there |= self.inner.put({}, {name: content})
            if fault in (Fault.FAILS, Fault.BREAKS_OFF, Fault.ANSWER_LOST):
                raise UnavailableError(f"{self.where(name)}: injected")
        return there

    def get(self, name: str) -> bytes:
        fault = self._fault_of_reading()
        content = self.inner.get(name)
        return content[: len(content) // 2] if fault is Fault.PART else content

    def get_file(self, name: str, target: Path) -> None:
        fault = self._fault_of_reading()
        self.inner.get_file(name, target)
        if fault is Fault.PART:
            target.write_bytes(target.read_bytes()[:-1])

    def entries(self, directory: str) -> dict[str, int | None]:
        self._fault_of_reading()
        return self.inner.entries(directory) if self.lists is None else self.lists.get(directory, {})

    def size(self, name: str) -> int | None:
        self._fault_of_reading()
        return self.inner.size(name)

    def delete(self, names: Iterable[str]) -> None:
        for name in list(names):
            self._changed(lambda name=name: self.inner.delete([name]))  # type: ignore[misc]  # used at once

    def rename(self, name: str, new: str) -> None:
        self._changed(lambda: self.inner.rename(name, new))

    def remove_tree(self, directory: str) -> None:
        self._changed(lambda: self.inner.remove_tree(directory))

    def confirm(self, names: Iterable[str]) -> None:
        self._changed(lambda: self.inner.confirm(names))

    def tidy(self, directory: str) -> None:
        self._changed(lambda: self.inner.tidy(directory))

    def lag(self) -> None:
        """From now on, lists say what they would say now."""
        self.lists = {}
        below = [""]
        while below:
            directory = below.pop()
            self.lists[directory] = found = self.inner.entries(directory)
            for name, size in found.items():
                if size is None:
                    below.append(f"{directory}/{name}" if directory else name)

    def _fault(self) -> Fault | None:
        return self.trouble.now() if self.trouble is not None else None

    def _fault_of_reading(self) -> Fault | None:
        fault = self._fault()
        if fault in (Fault.FAILS, Fault.ANSWER_LOST, Fault.BREAKS_OFF):
            raise UnavailableError(f"{self.place}: injected")
        return fault

    def _changed(self, act: Callable[[], None]) -> None:
        fault = self._fault()
        if fault in (None, Fault.ANSWER_LOST):
            act()
        if fault in (Fault.FAILS, Fault.ANSWER_LOST, Fault.BREAKS_OFF):
            raise UnavailableError(f"{self.place}: injected")
