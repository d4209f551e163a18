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
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.eventually import eventually
from host.environment import ROOT
from tests.browser.conftest import Serving, enter
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

WATCH = """() => {
  const text = (element) => element?.textContent.trim() ?? "";
  const note = (facts, key, value) => { if (value) (facts[key] ??= []).push(value); };
  const read = () => {
    const facts = {};
    for (const row of document.querySelectorAll("section[aria-label=Topologies] tbody tr")) {
      const name = text(row.querySelector(".name"));
      note(facts, `topology ${name}`, text(row.querySelector(".status")));
      note(facts, `available ${name}`, text(row.querySelector(".availability .number")));
    }
    const stats = new Map([...document.querySelectorAll(".stat")].map(
      (one) => [text(one.querySelector(".label")), text(one.querySelector(".value"))]));
    const [kind, name] = location.pathname.split("/").slice(1);
    if (kind === "topologies") {
      note(facts, `topology ${name}`, text(document.querySelector(".page-head .status")));
      const counted = stats.get("Queries available");
      if (counted !== "–") note(facts, `available ${name}`, counted);
      for (const row of document.querySelectorAll("section[aria-label=Details] tbody tr")) {
        const query = text(row.querySelector("button.link"));
        note(facts, `query ${name}/${query}`, text(row.querySelector(".status")));
      }
    }
    if (stats.has("Nodes alive")) note(facts, "nodes alive", stats.get("Nodes alive"));
    if (kind === "nodes") {
      note(facts, "nodes alive", text(document.querySelector("main h1 + .muted")).split(" ")[0]);
    }
    if (stats.has("Incidents")) note(facts, "incidents open", /^\\d+/.exec(stats.get("Incidents"))[0]);
    for (const banner of document.querySelectorAll("section.banner")) {
      note(facts, banner.ariaLabel.toLowerCase(), text(banner.querySelector(".status")));
    }
    for (const strip of document.querySelectorAll("aside[aria-label=Notices] a.notice")) {
      const [, number, word] = /Incident (\\d+): (.*?)(, \\d+ nodes? lost)?$/.exec(text(strip));
      note(facts, `incident ${number}`, word.charAt(0).toUpperCase() + word.slice(1));
    }
    for (const tile of document.querySelectorAll("a.tile")) {
      const [, name, word] = /^(\\S+): (.*), heartbeat/.exec(tile.title);
      note(facts, `node ${name}`, word);
    }
    for (const row of kind === "nodes" ? document.querySelectorAll("main tbody tr") : []) {
      const node = text(row.querySelector("td:nth-child(2) button"));
      note(facts, `node ${node}`, text(row.querySelector(".status")));
    }
    return facts;
  };
  window.frames_ = [];
  const look = () => {
    const sequence = Number(document.documentElement.dataset.sequence);
    const frame = JSON.stringify([sequence, read()]);
    if (window.frames_.at(-1) !== frame) window.frames_.push(frame);
  };
  new MutationObserver(look).observe(
    document.documentElement, {subtree: true, childList: true, characterData: true, attributes: true});
  look();
}"""

REACHED = "(sequence) => Number(document.documentElement.dataset.sequence) >= sequence"

Frame = tuple[int, dict[str, list[str]]]


class Seen:
    """What each place has shown, by sequence number and by what it is about."""

    def __init__(self) -> None:
        self.told: defaultdict[tuple[int, str], defaultdict[str, set[str]]] = defaultdict(
            lambda: defaultdict(set)
        )

    def add(self, place: str, sequence: int, facts: dict[str, list[str]]) -> None:
        for about, values in facts.items():
            for value in values:
                self.told[sequence, about][value].add(place)

    def contradictions(self) -> Iterator[str]:
        for (sequence, about), values in sorted(self.told.items()):
            if len(values) > 1:
                yield f"{about} at {sequence}: {dict(values)}"

    def compared(self) -> int:
        """How often two places have told of the same."""
        return sum(len(set().union(*values.values())) > 1 for values in self.told.values())


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


def command_line(server: Server, token: str) -> Frame:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "watch", "--once", "-o", "json"],
        cwd=ROOT, env={**server.environment(), "RESURGE_URL": server.url, "RESURGE_TOKEN": token},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    state = json.loads(done.stdout)
    facts: defaultdict[str, list[str]] = defaultdict(list)
    for row in state["topologies"]:
        facts[f"topology {row['name']}"].append(row["health"]["word"])
        if row["health"]["limit"] is not None:
            counted = f"{row['health']['value']:.0f}/{row['health']['limit']:.0f}"
            facts[f"available {row['name']}"].append(counted)
    for row in state["queries_down"]:
        facts[f"query {row['topology']}/{row['partition']}"].append(row["health"]["word"])
    for row in state["nodes"]:
        facts[f"node {row['name']}"].append(row["health"]["word"])
    for row in state["incidents"]:
        facts[f"incident {row['number']}"].append(row["health"]["word"])
    facts["incidents open"].append(str(len(state["incidents"])))
    facts["nodes alive"].append(str(sum(row["state"] == "alive" for row in state["nodes"])))
    return state["sequence"], dict(facts)


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
                    page.wait_for_function(
                        "(sequence) => Number(document.documentElement.dataset.sequence) >= sequence",
                        arg=sequence,
                    )
                found = eventually(lambda: _at(server, course.token, sequence), "the command line")  # noqa: B023
                assert found is not None
                seen.add("command line", *found)
            for path, page in pages.items():
                for frame in page.evaluate("() => window.frames_"):
                    seen.add(path, *json.loads(frame))
        assert not [*seen.contradictions()]
        about = {about.split(" ")[0] for _, about in seen.told}
        assert about == {"topology", "available", "query", "node", "nodes", "incident", "incidents"}
        assert seen.compared() > 200


def _at(server: Server, token: str, sequence: int) -> Frame | None:
    frame = command_line(server, token)
    return frame if frame[0] >= sequence else None
