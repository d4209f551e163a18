"""Fleet, topology, incident and node pages, and the command line, at the same sequence number through a whole
incident: what two of them show in any of their frames is the same.

Each page notes what it shows after each change of its document, with the number of the newest event that it
has taken in. The command line is a process of its own, asked after each step.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.eventually import eventually
from host.environment import ROOT
from tests.browser.conftest import Serving, enter
from tests.browser.frames import REACHED, WATCH, Frame, Seen, command_line, frames_of
from tests.browser.servers import Server

pytestmark = pytest.mark.browser

COURSE = (
    *(
        "driver",
        "driver",
        "report",
        "report",
        "lose",
        "advance",
        "advance",
        "join",
        "advance",
        "driver",
        "report",
    ),
    *("advance", "advance", "report", "note", "driver", "advance", "report", "note"),
)
"""A failure from detection to the end; what comes is chosen by chance within each step."""
RANDOM = (
    "driver",
    "report",
    "report",
    "lose",
    "join",
    "advance",
    "advance",
    "order",
    "note",
    "drain",
    "park",
)
STEPS = 20


class Play:
    """The process in which things happen."""

    def __init__(self, process: subprocess.Popen[str], token: str) -> None:
        self._process, self.token = process, token

    def step(self, action: str) -> tuple[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{action}\n")
        self._process.stdin.flush()
        done, sequence = json.loads(self._process.stdout.readline())
        return done, sequence


@contextmanager
def play(server: Server, seed: int) -> Iterator[Play]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.browser.course_play", "--seed", str(seed)],
        cwd=ROOT, env=server.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            # The server logs to the same stream: a token is one word.
            token = next(line.strip() for line in process.stdout if len(line.split()) == 1)
            yield Play(process, token)
        finally:
            process.kill()


@pytest.mark.parametrize("seed", [0, 1])
def test_no_two_places_contradict_each_other(
    seed: int, serving: Serving, new_page: Callable[..., Any]
) -> None:
    for server in serving("empty"):
        seen = Seen()
        chance = random.Random(seed)
        with play(server, seed) as course:
            pages: dict[str, Any] = {}
            for path in ("/", "/topologies/counts/", "/incidents/1/", "/nodes/"):
                pages[path] = new_page()
                enter(pages[path], server, path)
                pages[path].evaluate(WATCH)
            for action in [*COURSE, *chance.choices(RANDOM, k=STEPS)]:
                _, sequence = course.step(action)
                for page in pages.values():
                    page.wait_for_function(REACHED, arg=sequence)
                found = eventually(lambda: _at(server, course.token, sequence), "the command line")  # noqa: B023
                assert found is not None
                seen.add("command line", *found)
            for path, page in pages.items():
                for frame in frames_of(page):
                    seen.add(path, *frame)
        assert not [*seen.contradictions()]
        about = {about.split(" ")[0] for _, about in seen.told}
        assert about == {"topology", "available", "query", "node", "nodes", "incident", "incidents"}
        assert seen.compared() > 200


def _at(server: Server, token: str, sequence: int) -> Frame | None:
    frame = command_line(server.url, token)
    return frame if frame[0] >= sequence else None
