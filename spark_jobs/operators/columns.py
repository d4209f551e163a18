"""Choosing rows by a column's value, and choosing and renaming columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.problems import OperatorError, column_of, column_problems
from spark_jobs.state.tables import StateTables

_ORDERINGS: Final[dict[str, Callable[..., Any]]] = {
    "==": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip
_TEXT_TESTS: Final[dict[str, Callable[..., Any]]] = {
    "contains": pc.match_substring, "starts_with": pc.starts_with, "ends_with": pc.ends_with,
}  # fmt: skip
COMPARISONS: Final = (*_ORDERINGS, *_TEXT_TESTS, "in", "not_in", "is_null", "is_not_null")
_WITHOUT_VALUE: Final = ("is_null", "is_not_null")


class Filter(Operator):
    """Params: `column`, `comparison` (one of `COMPARISONS`), `value` (a list for `in` and `not_in`).
    Keeps the rows for which it holds; as in SQL, a null value fails every comparison but `is_null`. Whole
    numbers are compared with fractions exactly."""

    kind = "filter"
    takes = ("column", "comparison", "value")
    keeps_state = False

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        comparison, value = params.get("comparison"), params.get("value")
        found += column_problems("column", params.get("column"))
        if comparison not in COMPARISONS:
            found.append(f"comparison must be one of {', '.join(COMPARISONS)}, not {comparison!r}")
        elif comparison in _WITHOUT_VALUE:
            if value is not None:
                found.append(f"{comparison} takes no value")
        elif comparison in ("in", "not_in"):
            if not isinstance(value, list) or not value or None in value:
                found.append(f"value must be a list of one or more values for `{comparison}`, not {value!r}")
        elif comparison in _TEXT_TESTS:
            if not isinstance(value, str):
                found.append(f"value must be text for `{comparison}`, not {value!r}")
        elif not isinstance(value, str | int | float | bool):
            found.append(f"value must be text or a number, not {value!r}")
        return found

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return column

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        kept = [table.filter(self._holds(table)) for table in self.tables(inputs)]
        return concatenated(kept, self.kind)

    def _holds(self, table: pa.Table) -> pa.ChunkedArray:
        column = column_of(table, self.params["column"], self.kind)
        comparison, value = self.params["comparison"], self.params.get("value")
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        try:
            if comparison in _WITHOUT_VALUE:
                return pc.is_null(column) if comparison == "is_null" else pc.is_valid(column)
            if pa.types.is_null(column.type):  # an epoch of Python code without any value
                return column.cast(pa.bool_())
            if comparison in _TEXT_TESTS:
                return _TEXT_TESTS[comparison](column, value)
            if comparison in ("in", "not_in"):
                within = _within(column, self.params["value"])
                return within if comparison == "in" else pc.and_(pc.invert(within), pc.is_valid(column))
            if isinstance(value, float) and _is_exact(column):
                return _ORDERINGS[comparison](*_as_fractions(column, value))
            return _ORDERINGS[comparison](column, pa.scalar(value, column.type))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise OperatorError(
                f"filter cannot compare column {self.params['column']!r} ({column.type})"
                f" with {value!r}: {error}",
                "Give a value of the column's type.",
            ) from error


def _is_exact(column: pa.ChunkedArray) -> bool:
    """Whether fractions are no scalars of the column's type."""
    return bool(pa.types.is_integer(column.type) or pa.types.is_decimal(column.type))


def _within(column: pa.ChunkedArray, values: Sequence[Any]) -> pa.ChunkedArray:
    fractions = [value for value in values if isinstance(value, float)] if _is_exact(column) else []
    others = [value for value in values if not (fractions and isinstance(value, float))]
    within = pc.is_in(column, value_set=pa.array(others, column.type))
    for value in fractions:
        within = pc.or_(within, pc.fill_null(pc.equal(*_as_fractions(column, value)), False))
    return within


def _as_fractions(column: pa.ChunkedArray, value: float) -> tuple[pa.ChunkedArray, pa.Scalar]:
    """Whole numbers or decimals, and a fraction, so that they compare as they are. Below 2 ** 53 fractions
    hold all whole numbers; from there on the value is one itself."""
    if abs(value) >= 2**53:
        try:
            return column, pa.scalar(int(value), column.type)
        except (OverflowError, pa.ArrowInvalid):  # greater or less than all that the column can have
            value = math.copysign(math.inf, value)
    return column.cast(pa.float64(), safe=False), pa.scalar(value, pa.float64())


class Project(Operator):
    """Params: `columns`, a list of names, or a mapping of new names to old ones. Emits these columns."""

    kind = "project"
    takes = ("columns",)
    keeps_state = False

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        columns = params["columns"]
        self.columns: dict[str, str] = (
            dict(columns) if isinstance(columns, Mapping) else {c: c for c in columns}
        )

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        columns = params.get("columns")
        if not isinstance(columns, list | dict) or not columns:
            return [
                *found,
                f"columns must be a list of names or a mapping of new names to old, not {columns!r}",
            ]
        names = [*columns, *columns.values()] if isinstance(columns, dict) else columns
        found += [
            f"columns holds {name!r}, which is no name"
            for name in names
            if not isinstance(name, str) or not name
        ]
        if isinstance(columns, list):
            twice = sorted({str(name) for name in columns if columns.count(name) > 1})
            found += [f"columns names {name!r} twice" for name in twice]
        return found

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        columns = params["columns"]
        named = columns.items() if isinstance(columns, Mapping) else ((name, name) for name in columns)
        return next((new for new, old in named if old == column), "")

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        chosen = [
            pa.table({new: column_of(table, old, self.kind) for new, old in self.columns.items()})
            for table in self.tables(inputs)
        ]
        return concatenated(chosen, self.kind)


def concatenated(tables: Sequence[pa.Table], kind: str) -> pa.Table | None:
    """All rows in order, the columns matched by name; None when there is no table. `OperatorError` when the
    columns do not fit together."""
    if not tables:
        return None
    order = tables[0].column_names
    for table in tables:
        if sorted(table.column_names) != sorted(order):
            raise OperatorError(
                f"{kind} got inputs with different columns: {', '.join(order)}"
                f" and {', '.join(table.column_names)}",
                "Put a `project` before it so that all inputs have the same columns.",
            )
    try:
        return pa.concat_tables([table.select(order) for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise OperatorError(
            f"{kind} got inputs whose columns have different types: {error}",
            "Make the types equal before it.",
        ) from error
