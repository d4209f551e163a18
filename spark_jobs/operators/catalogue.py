"""Which operator kinds a topology can use here, and how to make one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from domain.topology.spec import TopologySpec
from spark_jobs.operators.average import WindowAverage
from spark_jobs.operators.base import Operator
from spark_jobs.operators.columns import Filter, Project
from spark_jobs.operators.flat_map import FlatMapRegex
from spark_jobs.operators.graph import Components, Least, Transitions
from spark_jobs.operators.join import WindowedJoin
from spark_jobs.operators.latest import Latest
from spark_jobs.operators.page_rank import PageRank, Ranks
from spark_jobs.operators.python import PythonMap, PythonOperator
from spark_jobs.operators.row_columns import columns_known
from spark_jobs.operators.sets import Distinct, Union
from spark_jobs.operators.sql import Sql
from spark_jobs.operators.top_k import TopK
from spark_jobs.operators.window import SlidingWindow, TumblingWindow

SOURCE: Final = "source"
_OPERATORS: Final[dict[str, type[Operator]]] = {
    operator.kind: operator
    for operator in (
        FlatMapRegex, Filter, Project, PythonMap, PythonOperator, Sql, SlidingWindow, TumblingWindow,
        WindowAverage, TopK, Latest, WindowedJoin, Distinct, Union, Transitions, Components, Least,
        PageRank, Ranks,
    )
}  # fmt: skip


class OperatorCatalogue:
    """The built-in kinds. What a specification names by dotted path must be in `modules`, by default those
    of RESURGE_OPERATOR_MODULES."""

    def __init__(self, modules: Sequence[str] | None = None) -> None:
        self._modules = modules

    @property
    def modules(self) -> Sequence[str]:
        if self._modules is None:
            from host.environment import read  # only where a dotted path asks for it

            self._modules = read().operator_modules
        return self._modules

    def kinds(self) -> list[str]:
        return [SOURCE, *_OPERATORS]

    def takes(self, kind: str) -> Sequence[str]:
        """Names of the parameters of a kind; of a source, those of all readers."""
        if kind == SOURCE:
            from spark_jobs.sources.registry import source_params

            return source_params()
        return _OPERATORS[kind].takes

    def is_source(self, kind: str) -> bool:
        return kind == SOURCE

    def inputs_taken(self, kind: str) -> int | None:
        """To how many operators a kind must subscribe, if not to any number."""
        return None if kind == SOURCE else _OPERATORS[kind].inputs_taken

    def joins(self, kind: str) -> bool:
        """Whether a kind gives nothing without one of its inputs."""
        return kind != SOURCE and _OPERATORS[kind].joins

    def problems(self, kind: str, params: Mapping[str, Any]) -> list[str]:
        """What is wrong with the parameters, one sentence each; empty when all is well."""
        if kind == SOURCE:
            from spark_jobs.sources.registry import (
                source_problems,
            )  # brings PySpark, which a web process can spare

            return source_problems(params, self.modules)
        operator = _OPERATORS[kind]
        if issubclass(operator, PythonMap | PythonOperator):
            return operator.problems_within(params, self.modules)
        return operator.problems(params)

    def state_params(self, kind: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The parameters that an operator's state between two epochs depends on; None if it keeps none. How
        far a source has read is in the epoch log."""
        if kind == SOURCE or not _OPERATORS[kind].keeps_state:
            return None
        names = _OPERATORS[kind].state_takes
        return {name: value for name, value in params.items() if names is None or name in names}

    def columns(self, spec: TopologySpec) -> Mapping[str, Sequence[str]]:
        """Operator -> the columns of its rows, of those of which it is known; `spec` has no faults so far."""
        known = columns_known(spec)
        return {name: [one.name for one in of.columns] for name, of in known.items() if of.columns}

    def carries(self, kind: str, params: Mapping[str, Any], column: str) -> str:
        """How the rows of an operator call a column of its input rows; empty if they do not have it."""
        return _OPERATORS[kind].carries(params, column)

    def state_columns(self, kind: str, params: Mapping[str, Any]) -> Sequence[str]:
        """The columns of input rows by which an operator's state can be divided."""
        operator = _OPERATORS[kind]
        if issubclass(operator, PythonOperator):
            return operator.state_columns_within(params, self.modules)
        return operator.state_columns(params)

    def state_by_input(self, kind: str) -> bool:
        """Whether each table of the state is of one of the inputs."""
        return _OPERATORS[kind].state_by_input

    def doubt(self, kind: str, params: Mapping[str, Any]) -> str:
        """Why an operator with these valid parameters may not be deterministic; empty if it is. What a
        source has read it reads again, whatever its reader: a replay rests on that."""
        return "" if kind == SOURCE else _OPERATORS[kind].doubt(params)

    def create(
        self, kind: str, params: Mapping[str, Any], inputs: Sequence[str], modules: Sequence[str] = ()
    ) -> Operator:
        """An operator for one task; `modules` is the allow-list of the driver that sent the task."""
        operator = _OPERATORS[kind]
        if issubclass(operator, PythonMap | PythonOperator):
            return operator.create(params, inputs, modules)
        return operator(params, inputs)


catalogue: Final = OperatorCatalogue()
