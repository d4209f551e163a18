"""What a specification can contain, for the editor's completion, in TypeScript."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from controlplane.api.typescript import COMMAND
from domain.topology.spec import InputSpec, KeySavingSpec, OperatorSpec, ParquetSinkSpec, TopologySpec
from host.environment import ROOT

WORDS = ROOT / "dashboard" / "frontend" / "src" / "lib" / "specification.generated.ts"
NOT_WRITTEN = frozenset({"doubt"})
"""Fields that loading fills in."""


def specification_words() -> str:
    """The text of the generated file."""
    from spark_jobs.operators.catalogue import catalogue  # brings Arrow

    kinds = {kind: list(catalogue.takes(kind)) for kind in catalogue.kinds()}
    fields = {
        "topology": _fields(TopologySpec),
        "operator": _fields(OperatorSpec),
        "input": _fields(InputSpec),
        "key_saving": _fields(KeySavingSpec),
        "sink": ["kind", *_fields(ParquetSinkSpec)],
    }
    return (
        f"// Written by `{COMMAND}` from the specification and the operators. Do not edit.\n\n"
        "/** Part of a specification to the fields that it can have. */\n"
        f"export const FIELDS: Record<string, readonly string[]> = {_written(fields)};\n\n"
        "/** Kind of an operator to its parameters. */\n"
        f"export const KINDS: Record<string, readonly string[]> = {_written(kinds)};\n"
    )


def _fields(of: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(of) if field.name not in NOT_WRITTEN]


def _written(value: dict[str, Any]) -> str:
    lines = "".join(f"  {name}: {json.dumps(words)},\n" for name, words in value.items())
    return f"{{\n{lines}}}"
