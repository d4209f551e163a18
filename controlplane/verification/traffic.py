"""What a source of traffic gives, recomputed in SQL from the numbers of its tuples.

docs/pipelines.md says in words what is computed here and, with numpy, by the engine.
"""

# Queries are put together from numbers, and from names that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.verification.problems import VerificationError
from controlplane.verification.rates import SECOND, Rates
from controlplane.verification.relations import DEFAULT_RATE, Relations, Stream, literal
from domain.topology.spec import OperatorSpec

CYCLE = 43_200
JAM_US = 60 * SECOND
STEP_US = 300 * SECOND
COLUMNS = ("ts", "key", "user_id", "speed")


@dataclass(frozen=True, slots=True)
class Measured:
    """A file of speeds: the names of its segments, and rows of whole numbers."""

    names: list[str]
    rows: list[list[int]]


def measured_read(path: Path) -> Measured:
    """Raises `VerificationError`."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.name.lower().endswith(".gz") else content).decode(
            "utf-8-sig"
        )
        header, *rows = [row for row in csv.reader(io.StringIO(text)) if row]
        names = [name.strip() for name in header]
        return Measured(names, [[math.floor(float(value) + 0.5) for value in row] for row in rows])
    except (OSError, EOFError, ValueError, csv.Error, zlib.error) as error:
        raise VerificationError(
            where=str(path), what=f"the speeds cannot be read: {error}", hint="Put the file back."
        ) from error


def drawn(number: str, seed: int, purpose: int) -> str:
    """A number from 0 to 2**31 - 1, without a visible pattern."""
    return f"drawn({number}, {(seed * 8 + purpose) * 0x9E3779B1 & 0x7FFFFFFF})"


_MACROS = """
    CREATE OR REPLACE MACRO stirred(x, bits, factor) AS (xor(x, x >> bits) * factor::BIGINT) & 2147483647;
    CREATE OR REPLACE MACRO folded(x, salt) AS xor(xor(x::BIGINT, x::BIGINT >> 31) & 2147483647, salt);
    CREATE OR REPLACE MACRO ended(x) AS xor(x, x >> 15);
    CREATE OR REPLACE MACRO drawn(x, salt) AS
        ended(stirred(stirred(folded(x, salt), 15, 739982445), 12, 695872825));
"""


class Traffic:
    """The tables of one source. Their names begin with that of the operator."""

    def __init__(self, relations: Relations, operator: OperatorSpec, measured: Measured | None) -> None:
        params: Mapping[str, Any] = operator.params
        self.relations, self.operator, self.measured = relations, operator, measured
        self.number = relations.extent.tuples.get(operator.name, 0)
        self.users = params.get("users") or 100_000
        self.seed = params.get("seed") or 0
        self.every = (params.get("every_s") or 2) * SECOND
        self.rate = params.get("rate") or DEFAULT_RATE
        self.step = max(1, round(STEP_US / (params.get("speedup") or 1)))
        count = len(measured.names) if measured else params.get("segments") or 1_000
        zipf = 0.5 if params.get("zipf") is None else params["zipf"]
        self.segments = f"segments_{operator.name}"
        self.incidents = f"incidents_{operator.name}"
        relations.database.execute(_MACROS)
        self._segments(count, zipf)
        self._incidents()

    def _segments(self, count: int, zipf: float) -> None:
        """Segment, name, and its users: those from `first` to before `until`."""
        names = self.measured.names if self.measured else [f"S{number + 1}" for number in range(count)]
        weights = [round(1_000_000_000 / (number + 1) ** zipf) for number in range(count)]
        values, before, total = [], 0, sum(weights)
        for number, weight in enumerate(weights):
            first, until = self.users * before // total, self.users * (before + weight) // total
            before += weight
            values.append(f"({number}, {literal(names[number])}, {first}, {until})")
        self.relations.database.execute(
            f"CREATE TABLE {self.segments} AS"
            f" SELECT * FROM (VALUES {', '.join(values)}) s(segment, name, first, until)"
        )

    def _incidents(self) -> None:
        """Of each incident of a cycle: segment, name, its first user, how many report it, which report is the
        first, and whether it holds the traffic up."""
        self.relations.database.execute(
            f"""
            CREATE TABLE {self.incidents} AS
            SELECT i.incident, s.segment, s.name, s.first, s.until - s.first AS size,
                (sum(s.until - s.first) OVER (ORDER BY i.incident))::BIGINT - (s.until - s.first) AS report,
                {drawn("i.incident", self.seed, 4)} % 2 = 1 AS holds_up
            FROM (
                SELECT range AS incident, {drawn("range", self.seed, 3)} % {self.users} AS victim
                FROM range({CYCLE})
            ) i JOIN {self.segments} s ON i.victim >= s.first AND i.victim < s.until
            """
        )

    def build(self) -> Rates:
        """Make the stream; returns when its tuples arrive."""
        locations = self.operator.params.get("stream") == "locations"
        rates = Rates([self.rate], SECOND) if locations else self._reports()
        query = self._located(rates) if locations else self._reported(rates)
        name = f"s_{self.operator.name}"
        view = self.relations.view(name, query)
        self.relations.built[self.operator.name] = Stream(view, COLUMNS if locations else COLUMNS[:3], True)
        return rates

    def _reports(self) -> Rates:
        rows = self.relations.database.execute(
            f"SELECT size FROM {self.incidents} ORDER BY incident"
        ).fetchall()
        return Rates([size for (size,) in rows], self.every)

    def _reported(self, rates: Rates) -> str:
        return (
            f"SELECT t.n AS _n, 0::BIGINT AS _pos, {self.relations.extent.origin_us} + t.us AS ts,"
            f" i.name AS key, i.first + t.n % {rates.total} - i.report AS user_id"
            f" FROM ({rates.times(self.number)}) t"
            f" ASOF JOIN {self.incidents} i ON t.n % {rates.total} >= i.report"
        )

    def _located(self, rates: Rates) -> str:
        stride = max(1, self.users * 618 // 1_000)
        while math.gcd(stride, self.users) != 1:
            stride += 1
        users = (
            f"SELECT n, us, n % {self.users} * {stride} % {self.users} AS user_id"
            f" FROM ({rates.times(self.number)})"
        )
        there = (
            f"SELECT u.*, s.segment, s.name FROM ({users}) u ASOF JOIN"
            f" (SELECT * FROM {self.segments} WHERE until > first) s ON u.user_id >= s.first"
        )
        return (
            f"SELECT n AS _n, 0::BIGINT AS _pos, {self.relations.extent.origin_us} + us AS ts, name AS key,"
            f" user_id, greatest(0, pace + {drawn('n', self.seed, 5)} % 7 - 3) AS speed"
            f" FROM ({self._driven(there) if self.measured is None else self._as_measured(there)})"
        )

    def _driven(self, there: str) -> str:
        """With the speed of the segment: that of a jam if an incident held the traffic up less than
        `JAM_US` ago."""
        last = self.number * SECOND // self.rate // self.every
        jams = (
            f"SELECT i.segment, t.range * {self.every} AS begun FROM range({last + 1}) t"
            f" JOIN {self.incidents} i ON i.incident = t.range % {CYCLE} WHERE i.holds_up"
        )
        slow, free = drawn("l.segment", self.seed, 2), drawn("l.segment", self.seed, 1)
        return (
            f"SELECT l.*, CASE WHEN j.begun > l.us - {JAM_US} THEN 5 + {slow} % 10 ELSE 45 + {free} % 26 END"
            f" AS pace FROM ({there}) l ASOF LEFT JOIN ({jams}) j"
            " ON l.segment = j.segment AND l.us >= j.begun"
        )

    def _as_measured(self, there: str) -> str:
        assert self.measured is not None  # noqa: S101 - asked before
        table = f"speeds_{self.operator.name}"
        self.relations.rows_table(
            table,
            {
                "step": [step for step, row in enumerate(self.measured.rows) for _ in row],
                "segment": [segment for row in self.measured.rows for segment, _ in enumerate(row)],
                "pace": [pace for row in self.measured.rows for pace in row],
            },
        )
        return (
            f"SELECT l.*, m.pace FROM ({there}) l JOIN {table} m ON m.segment = l.segment"
            f" AND m.step = l.us // {self.step} % {len(self.measured.rows)}"
        )
