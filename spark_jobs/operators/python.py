"""User code in a topology: a function over the rows of an epoch, or a whole operator, by dotted path.

Only modules that the administrator allows can be named (RESURGE_OPERATOR_MODULES).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import pyarrow as pa

from spark_jobs.allowed import NotAllowedError, allowed_object
from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.columns import concatenated
from spark_jobs.operators.problems import OperatorError
from spark_jobs.state.key_states import KeySet, Mask
from spark_jobs.state.tables import StateTables

UNKNOWN: Final = "it runs Python code, for which that cannot be known"


class PythonMap(Operator):
    """Params: `function`, the dotted path of a function from a `pyarrow.Table` to another (or None), and
    `arguments`, a mapping of further keyword arguments. It is called with each epoch's rows; where their
    number matters it must not rely on it, since epochs vary in size."""

    kind = "map"
    takes = ("function", "arguments")
    keeps_state = False

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str], modules: Sequence[str] = ()) -> None:
        super().__init__(params, inputs)
        self.function = allowed_object(params["function"], modules)
        self.arguments: dict[str, Any] = dict(params.get("arguments", {}))

    @classmethod
    def doubt(cls, params: Mapping[str, Any]) -> str:
        return UNKNOWN

    @classmethod
    def create(cls, params: Mapping[str, Any], inputs: Sequence[str], modules: Sequence[str]) -> Self:
        return cls(params, inputs, modules)

    @classmethod
    def problems_within(cls, params: Mapping[str, Any], modules: Sequence[str]) -> list[str]:
        found = unknown_params(params, cls.takes)
        arguments = params.get("arguments", {})
        if not isinstance(arguments, dict) or not all(isinstance(name, str) for name in arguments):
            found.append(f"arguments must be a mapping of names to values, not {arguments!r}")
        found += _problems_of_path(params, "function", modules)
        if not found and not callable(allowed_object(params["function"], modules)):
            found.append(f"{params['function']!r} is not a function")
        return found

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        rows = concatenated(self.tables(inputs), self.kind)
        if rows is None:
            return None
        result = self.function(rows, **self.arguments)
        if isinstance(result, pa.RecordBatch):
            return pa.Table.from_batches([result])
        if result is not None and not isinstance(result, pa.Table):
            raise OperatorError(
                f"{self.params['function']} returned {type(result).__name__}",
                "Return a pyarrow.Table or None.",
            )
        return result


class PythonOperator(Operator):
    """Params: `class`, the dotted path of a subclass of `Operator`, and `params`, its own parameters."""

    kind = "python"
    takes = ("class", "params")

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str], modules: Sequence[str] = ()) -> None:
        super().__init__(params, inputs)
        self.operator: Operator = allowed_object(params["class"], modules)(params.get("params", {}), inputs)

    @classmethod
    def doubt(cls, params: Mapping[str, Any]) -> str:
        return UNKNOWN

    @classmethod
    def create(cls, params: Mapping[str, Any], inputs: Sequence[str], modules: Sequence[str]) -> Self:
        return cls(params, inputs, modules)

    @classmethod
    def problems_within(cls, params: Mapping[str, Any], modules: Sequence[str]) -> list[str]:
        found = unknown_params(params, cls.takes) + _problems_of_path(params, "class", modules)
        own = params.get("params", {})
        if not isinstance(own, dict):
            found.append(f"params must be a mapping, not {own!r}")
        if found:
            return found
        operator = allowed_object(params["class"], modules)
        if not (inspect.isclass(operator) and issubclass(operator, Operator)):
            return [f"{params['class']!r} is not a subclass of spark_jobs.operators.base.Operator"]
        return operator.problems(own)

    @classmethod
    def state_columns_within(cls, params: Mapping[str, Any], modules: Sequence[str]) -> Sequence[str]:
        operator: type[Operator] = allowed_object(params["class"], modules)
        return operator.state_columns(params.get("params", {}))

    def state_input(self, table: str) -> str:
        return self.operator.state_input(table)

    def values_merged(self, values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return self.operator.values_merged(values)

    def is_dirty(self, keys: pa.Array, inputs: Mapping[str, Sequence[pa.Table]]) -> Mask:
        return self.operator.is_dirty(keys, inputs)

    def checkpoint(self, keys: pa.Table) -> Mask:
        return self.operator.checkpoint(keys)

    def serialise(self, state: StateTables, keys: KeySet) -> StateTables:
        return self.operator.serialise(state, keys)

    def restore(self, context: EpochContext | None, state: StateTables, saved: StateTables) -> None:
        self.operator.restore(context, state, saved)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        return self.operator.process(context, inputs, state)


def _problems_of_path(params: Mapping[str, Any], name: str, modules: Sequence[str]) -> list[str]:
    path = params.get(name)
    if not isinstance(path, str):
        return [f"{name} must be a dotted path, not {path!r}"]
    try:
        allowed_object(path, modules)
    except NotAllowedError as error:
        return [f"{name}: {error}"]
    return []
