"""How an operator is configured: its parameters, and the columns of what it gets and gives."""

from __future__ import annotations

from typing import Any

import msgspec
from django.conf import settings

from controlplane.topologies.operators import operator_find
from spark_jobs.operators.row_columns import KnownColumns, columns_known

CODE = {"sql": "query"}
"""Kind -> the parameter that is SQL."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter as the specification has it."""

    name: str
    value: Any


class OperatorColumn(msgspec.Struct, frozen=True, kw_only=True):
    """type: text, number, boolean or time; empty where it is not known."""

    name: str
    type: str
    masked: bool


class OperatorColumns(msgspec.Struct, frozen=True, kw_only=True):
    """See `spark_jobs.operators.row_columns.KnownColumns`."""

    columns: list[OperatorColumn]
    origin: str
    note: str


class OperatorInput(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A stream that the operator subscribes to. key: what chooses its partition, where that is by key."""

    source: str
    partitioning: str
    key: str
    feedback: bool
    gives: OperatorColumns


class OperatorDescription(msgspec.Struct, frozen=True, kw_only=True):
    """version: that of the specification. sql: the query of an operator that has one."""

    topology: str
    version: int
    name: str
    kind: str
    description: str
    parallelism: int
    output: bool
    params: list[Parameter]
    sql: str
    gives: OperatorColumns
    inputs: list[OperatorInput]


def operator_describe(*, topology: str, operator: str) -> OperatorDescription:
    """Raises `Missing`."""
    row, graph, found = operator_find(topology, operator)
    known = columns_known(graph.spec)
    code = CODE.get(found.kind, "")
    return OperatorDescription(
        topology=row.name,
        version=row.version,
        name=found.name,
        kind=found.kind,
        description=found.description,
        parallelism=found.parallelism,
        output=found.output,
        params=[Parameter(name=name, value=value) for name, value in found.params.items() if name != code],
        sql=str(found.params.get(code, "")) if code else "",
        gives=_shown(known[found.name]),
        inputs=[
            OperatorInput(
                source=stream.source,
                partitioning=stream.partitioning,
                key=stream.key if stream.partitioning in ("split", "full") else "",
                feedback=stream.feedback,
                gives=_shown(known[stream.source]),
            )
            for stream in found.inputs
        ],
    )


def _shown(known: KnownColumns) -> OperatorColumns:
    masked = settings.RESURGE.mask_columns
    return OperatorColumns(
        columns=[
            OperatorColumn(name=column.name, type=column.type, masked=column.name in masked)
            for column in known.columns
        ],
        origin=known.origin,
        note=known.note,
    )
