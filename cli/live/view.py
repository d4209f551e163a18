"""The live view: what an operator must see first, on top, in as many columns as the terminal has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cli.estimates import over_words
from cli.figures import available, judged, measured
from cli.guarantee import bounded
from cli.live.state import Fields, State, worst
from cli.status import BAD, BUSY, DONE, GOOD, IDLE, SIGNS, WARN, health, look, state
from cli.waves import wave_moves, wave_partitions, wave_places, wave_queries, wave_state
from cli.words import (
    DASH,
    age,
    between,
    by_name,
    count,
    duration,
    listed,
    plain,
    plural,
    rate,
    relative,
    since,
    stopwatch,
)

MOST_DOWN = 12
PRESENT = frozenset({"alive", "suspect", "draining"})
NARROW, WIDE = 70, 100


@dataclass(frozen=True, slots=True)
class Link:
    """Whether the view is current. If it is not `live`, `words` says why."""

    server: str
    live: bool
    words: str


def view(shown: State, link: Link, width: int, *, most_nodes: int = 10_000) -> Group:
    """The whole view; the caller cuts it to the terminal's height."""
    queries = shown.queries()
    down = shown.queries_down()
    parts: list[RenderableType] = [_header(shown, link, width)]
    for incident in shown.incidents_open():
        parts += ["", *_incident(shown, incident, width)]
    parts += ["", _topologies(shown, queries, width)]
    if down:
        parts += ["", *_down(down, width)]
    parts += ["", *_nodes(shown, width, most_nodes)]
    return Group(*parts)


def _header(shown: State, link: Link, width: int) -> Table:
    mark = (f"{SIGNS[GOOD]} live", GOOD) if link.live else (f"{SIGNS[WARN]} {link.words}", f"{WARN} bold")
    line = Table.grid(expand=True, padding=(0, 1))
    line.add_column(overflow="ellipsis", no_wrap=True)
    line.add_column(justify="right", no_wrap=not link.words)
    name = Text.assemble(("Resurge ", "bold"), (plain(link.server) if width >= NARROW else "", "dim"))
    clock = f" {shown.now().astimezone():%H:%M:%S}" if link.live else ""
    line.add_row(name, Text.assemble(mark, (clock, "dim")))
    return line


def _incident(shown: State, incident: Fields, width: int) -> Iterator[RenderableType]:
    spent = between(incident["detected_at"], shown.now().isoformat())
    yield Text.assemble(
        (f"{SIGNS[BAD]} Incident {incident['number']}  ", f"{BAD} bold"),
        health(incident),
        f"  {stopwatch(spent or 0)}  {plain(incident['method'])}",
    )
    if incident["health"]["note"]:
        yield _indented(incident["health"]["note"])
    if over := over_words(incident, shown.now()):
        yield _indented(f"over in {over}" if incident["forecast"].get("over") else over)
    if incident["failed_nodes"]:
        yield _indented(f"lost {listed(incident['failed_nodes'], 3 if width < NARROW else 8)}")
    back = (("first", "first_query_at"), ("half", "half_queries_at"), ("all", "all_queries_at"))
    times = [f"{name} {duration(between(incident['detected_at'], incident[field]))}" for name, field in back]
    yield _indented(f"queries back: {', '.join(times)}")
    plans = shown.plans(incident["number"])
    if plans:
        yield _waves(plans, width)
    for topology, proposal in sorted(incident["proposals"].items()):
        does = (
            f"move {plural(len(proposal['restore']), 'partition')}"
            if wave_moves(proposal)
            else f"bring back {plural(len(proposal['queries']), 'query', 'queries')}"
        )
        words = f"wave {proposal['wave']} of {topology} would {does} and waits: "
        command = f"resurge incidents approve {incident['number']}"
        yield Text.assemble((f"  {SIGNS[WARN]} ", WARN), plain(words), (command, "bold"))
    entry = shown.newest_entry(incident["number"])
    if entry is not None:
        yield _indented(f"{entry['text']} ({age(since(entry['at'], shown.now()))})", "dim")


def _waves(plans: list[Fields], width: int) -> Table:
    table = _grid(6 if width >= WIDE else 5 if width >= NARROW else 4)
    for plan in plans:
        took = between(plan["created_at"], plan["caught_up_at"])
        queries = len(wave_queries(plan))
        cells: list[RenderableType] = [
            Text(f"  wave {plan['wave']}"),
            Text(plain(plan["topology"])),
            state("wave", wave_state(plan)),
            Text(plural(queries, "query", "queries") if queries else wave_partitions(plan)),
            Text(wave_places(plan, 3)),
            Text("" if took is None else f"after {duration(took)}", style="dim"),
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def _topologies(shown: State, queries: dict[str, list[Fields]], width: int) -> RenderableType:
    rows = shown.topologies()
    if not rows:
        return Text("No topology yet: `resurge topologies deploy --help`", style="dim")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("TOPOLOGY", overflow="fold")
    table.add_column("STATUS", no_wrap=True)
    if width >= NARROW:
        table.add_column("", no_wrap=True)
    for title in (
        "AVAILABLE",
        "WORST",
        *(("TUPLES/S",) if width >= NARROW else ()),
        *(("CHECKPOINT",) if width >= WIDE else ()),
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        own = queries[row["name"]]
        behind = max(0, row["head_epoch"] - row["checkpoint_epoch"])
        cells: list[RenderableType] = [Text(plain(row["name"])), health(row)]
        if width >= NARROW:
            length = 24 if width >= WIDE else 12
            part, whole = row["health"]["value"], row["health"]["limit"]
            cells.append(bar(round(part), round(whole), length) if judged(row) else Text(""))
        cells.append(Text(available(row) if judged(row) else DASH))
        cells.append(Text(relative(worst(own)) if measured(row) else DASH))
        if width >= NARROW:
            cells.append(Text(rate(row["input_rate"]) if measured(row) else DASH))
        if width >= WIDE:
            known = measured(row) and not bounded(row)
            cells.append(Text(f"{plural(behind, 'epoch')} ago" if known else DASH))
        table.add_row(*cells)
    return table


def _down(queries: list[Fields], width: int) -> Iterator[RenderableType]:
    queries = sorted(queries, key=lambda row: (-row["priority"], row["topology"], by_name(row["partition"])))
    yield Text(f"{plural(len(queries), 'query is', 'queries are')} not available, by priority", style="bold")
    table = _grid(5 if width >= NARROW else 4)
    for row in queries[:MOST_DOWN]:
        cells: list[RenderableType] = [
            Text(f"  {plain(row['partition'])}"),
            health(row),
            Text(f"priority {row['priority']}"),
            Text(relative(row["health"]["value"])),
            Text(plain(row["topology"]), style="dim"),
        ]
        table.add_row(*cells[: len(table.columns)])
    yield table
    if len(queries) > MOST_DOWN:
        yield _indented(f"and {len(queries) - MOST_DOWN} more: resurge queries list --down", "dim")


def _nodes(shown: State, width: int, most: int) -> Iterator[RenderableType]:
    rows = shown.nodes()
    if not rows:
        yield Text("No node has registered yet", style="dim")
        return
    counts = Counter(str(row["health"]["word"]) for row in rows)
    one_of = {row["health"]["word"]: row for row in sorted(rows, key=_rank)}
    present = (health(row, f"{counts[word]} {word.lower()}") for word, row in one_of.items())
    yield Text.assemble((f"{plural(len(rows), 'node')}: ", "bold"), Text(", ").join(present))
    hosted = Counter(str(row["node"]) for row in shown.entities["partition"].values() if row["node"])
    table = _grid(6 if width >= WIDE else 5 if width >= NARROW else 4)
    # Unhealthy nodes come first: they stay visible on a low terminal.
    for row in sorted(rows, key=_rank)[:most]:
        silent = since(row["last_heartbeat"], shown.now())
        measured = row["state"] in PRESENT and row["cpu_percent"] is not None
        cells: list[RenderableType] = [
            Text(f"  {plain(row['name'])}"),
            health(row),
            Text(f"{plain(row['rack'])}"),
            Text(
                "" if silent is None else f"heartbeat {age(silent)}",
                style="dim" if row["state"] == "alive" else "",
            ),
            Text(f"{count(row['cpu_percent'])} % CPU" if measured else ""),
            Text(plural(hosted[row["name"]], "partition")),
        ]
        table.add_row(*cells[: len(table.columns)])
    yield table
    if len(rows) > most:
        yield _indented(f"and {len(rows) - most} more: resurge nodes list", "dim")


_RANKS = {BAD: 0, WARN: 1, BUSY: 2, IDLE: 4, DONE: 4, GOOD: 3}


def _rank(node: Fields) -> int:
    return _RANKS[look(node)]


def bar(part: int, whole: int, width: int) -> Text:
    """Filled up to `part` of `whole`; never full while something is missing."""
    filled = 0 if not whole else width if part == whole else min(width - 1, round(width * part / whole))
    return Text.assemble(("━" * filled, GOOD if part == whole else WARN), ("─" * (width - filled), "dim"))


def _grid(columns: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        table.add_column(overflow="fold")
    return table


def _indented(text: str, style: str = "") -> Padding:
    return Padding(Text(plain(text), style=style), (0, 0, 0, 2))


class Fitted:
    """A renderable cut to a height, with a last line that says how much is missing."""

    def __init__(self, inner: RenderableType, height: int) -> None:
        self._inner = inner
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._inner, options.update(height=None), pad=False)
        missing = len(lines) - self._height
        if missing > 0:
            lines = lines[: max(0, self._height - 1)]
            note = f"{missing + 1} more lines: the terminal is too small"
            lines.append(list(console.render(Text(note, style="dim"), options.update(height=1)))[:1])
        yield from _joined(lines)


def _joined(lines: Iterable[list[Segment]]) -> Iterator[Segment]:
    for number, line in enumerate(lines):
        if number:
            yield Segment.line()
        yield from line
