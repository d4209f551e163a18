"""Event times: from what a file holds to microseconds since the Unix epoch.

Numbers carry no unit, so `auto` picks the one that puts the first value between 1973 and 2286
(ten digits are seconds, thirteen milliseconds, sixteen microseconds, more nanoseconds); give `ts_unit`
where that guess is wrong, for instance for times counted from zero.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

UNITS: Final = ("auto", "s", "ms", "us", "ns")
_PER_MICROSECOND: Final = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT_US: Final = 2**60
"""No event time in a file is beyond this, 36,000 years from 1970."""
_LAST_US: Final = 2**62
"""No event time of a later pass over a file is beyond this: windows with it still fit into 64 bits."""


def mean_step(span: int, rows: int) -> int:
    """Microseconds from the end of a pass over a file to the beginning of the next one."""
    return max(1, span // max(1, rows - 1))


def passes_that_fit(last: int, period: int) -> int:
    """How often a file can be read, whose greatest time is `last`, if each pass is `period` later."""
    return (_LAST_US - last) // period + 1


def guessed_unit(value: float) -> str:
    """The unit of a number that is a time in this era: 's', 'ms', 'us' or 'ns'."""
    size = abs(value)
    if size < 1e11:
        return "s"
    if size < 1e14:
        return "ms"
    return "us" if size < 1e17 else "ns"


class EventTimes:
    """Turns the values of one column into int64 microseconds; remembers the unit it settled on."""

    def __init__(self, unit: str = "auto") -> None:
        if unit not in UNITS:
            raise ValueError(f"ts_unit is {unit!r}; it must be one of {', '.join(UNITS)}")
        self.unit = unit

    def of_array(self, values: pa.Array) -> pa.Array:
        """Microseconds of an Arrow column of timestamps, dates, numbers or text; null where there is no
        usable time. Fractions of a microsecond are cut off downwards."""
        kind = values.type
        if pa.types.is_dictionary(kind):
            return self.of_array(values.cast(kind.value_type))
        if pa.types.is_date(kind):
            return self._scaled(values.cast(pa.timestamp("s")).cast(pa.int64()), "s")
        if pa.types.is_timestamp(kind):
            return self._scaled(values.cast(pa.int64()), kind.unit)
        if pa.types.is_integer(kind) and kind != pa.uint64():
            whole = values.cast(pa.int64())
            if whole.null_count == len(whole):
                return whole
            return self._scaled(whole, self._settle(whole.drop_null()[0].as_py()))
        return pa.array([self.of_value(value) for value in values.to_pylist()], pa.int64())

    def of_value(self, value: object) -> int | None:
        """Microseconds of one number, or of one text (a number or ISO 8601, UTC unless it says otherwise)."""
        if isinstance(value, str):
            return self._of_text(value.strip())
        if isinstance(value, datetime):
            return _since_epoch(value)
        if isinstance(value, Decimal):
            value = int(value) if value == int(value) else float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not abs(value) < _LIMIT_US * 1_000:  # NaN, or no time in any unit, so it does not decide the unit
            return None
        times, over = _PER_MICROSECOND[self._settle(value)]
        exact = round(value * times / over) if isinstance(value, float) else value * times // over
        return exact if abs(exact) < _LIMIT_US else None

    def _of_text(self, text: str) -> int | None:
        for number in (int, float):
            try:
                return self.of_value(number(text))
            except ValueError:
                continue
        try:
            return _since_epoch(datetime.fromisoformat(text))
        except ValueError:
            return None

    def _settle(self, value: float) -> str:
        if self.unit == "auto":
            self.unit = guessed_unit(value)
        return self.unit

    def _scaled(self, whole: pa.Array, unit: str) -> pa.Array:
        """int64 counts of `unit` to microseconds; null for what is out of range."""
        times, over = _PER_MICROSECOND[unit]
        counts = whole.fill_null(0).to_numpy()
        usable = np.abs(counts.astype(np.float64)) * times / over < _LIMIT_US
        scaled = np.where(usable, counts, 0) * times // over
        mask = (
            ~usable if not whole.null_count else ~(usable & whole.is_valid().to_numpy(zero_copy_only=False))
        )
        return pa.array(scaled, pa.int64(), mask=mask)


def _since_epoch(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
