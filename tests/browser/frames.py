"""What pages and the command line show in each frame, and whether two of them contradict each other.

Each page notes what it shows after each change of its document, with the number of the newest event that it
has taken in. The command line is a process of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_context = multiprocessing.get_context("forkserver")
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


def frames_of(page: Any) -> list[Frame]:
    """What a page has shown since `WATCH` ran in it."""
    return [(sequence, facts) for sequence, facts in map(json.loads, page.evaluate("() => window.frames_"))]


def command_line(url: str, token: str) -> Frame:
    """Asked by a process of its own, forked from one that has imported the command line already."""
    with tempfile.TemporaryDirectory() as directory:
        said = Path(directory) / "said"
        process = _context.Process(target=_watch_once, args=(said, url, token))
        process.start()
        process.join()
        state = json.loads(said.read_text())
    assert process.exitcode == 0
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


def _watch_once(said: Path, url: str, token: str) -> None:
    from cli.main import program

    os.environ |= {"RESURGE_URL": url, "RESURGE_TOKEN": token}
    sys.argv = ["resurge", "watch", "--once", "-o", "json"]
    with said.open("w") as output:
        os.dup2(output.fileno(), 1)
    program()
