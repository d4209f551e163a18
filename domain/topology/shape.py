"""The shape of a specification: every field that is missing, unknown or of the wrong kind, with its path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from domain.durations import FORMS, seconds_read
from domain.topology.spec import FieldProblem, OperatorSpec, TopologySpec
from domain.topology.wording import choice_problem, name_problem, suggestion, value_problem

_AT = re.compile(r" - at `(?:key in `)?\$?(.*?)`?$", re.DOTALL)
_DURATIONS = frozenset({
    "epoch_interval", "checkpoint_interval", "checkpoint_pause", "checkpoint_timeout", "checkpoints_kept_for",
})  # fmt: skip
_DURATION_PARAMS = frozenset({"size_s", "slide_s"})


def shape_read(data: Mapping[str, Any]) -> tuple[TopologySpec, list[FieldProblem]]:
    """The specification and all that is wrong with its shape.

    Where something is wrong the specification is only good for finding further faults: what cannot be
    used has its default, or stays as it was given.
    """
    problems: list[FieldProblem] = []
    spec: TopologySpec = _struct(data, TopologySpec, "", problems)
    if not spec.operators and "operators" in (problem.path for problem in problems):
        spec = msgspec.structs.replace(spec, operators=())
    return spec, problems


def _struct(data: Mapping[str, Any], struct: type[Any], path: str, problems: list[FieldProblem]) -> Any:
    """An instance of `struct` made of what can be used; problems are added."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for key in data:
        if key not in fields:
            known = f"{', '.join(fields)}{suggestion(key, fields)}"
            problems.append(FieldProblem(_join(path, str(key)), f"there is no such field; known: {known}"))
    values: dict[str, Any] = {}
    for key, field in fields.items():
        where = _join(path, key)
        if key not in data:
            if field.required:
                problems.append(FieldProblem(where, "is required"))
                values[field.name] = ""
            continue
        element = _element(field.type)
        if element is not None:
            values[field.name] = _structs(data[key], element, where, problems)
            continue
        value = _seconds(key, data[key])
        try:
            values[field.name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            problems.append(_problem(error, struct, where, data, key, field.type))
            if field.required:
                # A name that cannot be is still the one by which streams refer to the operator.
                values[field.name] = data[key] if isinstance(data[key], str) else ""
    return struct(**values)


def _structs(data: Any, element: type[Any], path: str, problems: list[FieldProblem]) -> tuple[Any, ...]:
    """Positions stay what they were: a nameless one stands for an element that cannot be read."""
    if not isinstance(data, list | tuple):
        problems.append(FieldProblem(path, f"must be a list, not {data!r:.60}"))
        return ()
    structs = []
    for index, one in enumerate(data):
        where = f"{path}[{index}]"
        if not isinstance(one, Mapping):
            problems.append(FieldProblem(where, f"must be a mapping, not {one!r:.60}"))
            structs.append(_struct({}, element, where, []))
        else:
            structs.append(_struct(one, element, where, problems))
    return tuple(structs)


def _element(kind: Any) -> type[Any] | None:
    """The struct that a field holds a sequence of, if it does."""
    arguments = get_args(kind)
    if get_origin(kind) is tuple and arguments and isinstance(arguments[0], type):
        return arguments[0] if issubclass(arguments[0], msgspec.Struct) else None
    return None


def _seconds(key: str, value: Any) -> Any:
    """Durations in seconds, where they may be written with a unit: `1h`. All else is as it was."""
    if key == "params" and isinstance(value, Mapping):
        return {name: _read(one) if name in _DURATION_PARAMS else one for name, one in value.items()}
    return _read(value) if key in _DURATIONS else value


def _read(value: Any) -> Any:
    seconds = seconds_read(value) if isinstance(value, str) else None
    return value if seconds is None else int(seconds) if seconds.is_integer() else seconds


def _problem(
    error: msgspec.ValidationError,
    struct: type[Any],
    path: str,
    data: Mapping[str, Any],
    key: str,
    kind: Any,
) -> FieldProblem:
    text, value = str(error), data[key]
    found = _AT.search(text)
    message = _AT.sub("", text)
    if "matching regex" in message:
        message = name_problem(value, topology=struct is TopologySpec)
    elif get_origin(kind) is Literal:
        message = choice_problem(value, get_args(kind))
    elif key in _DURATIONS and isinstance(value, str) and seconds_read(value) is None:
        message = f"{value!r:.60} is no duration: write {FORMS}"
    else:
        message = value_problem(message, value)
    if struct is OperatorSpec:
        message += f" (operator {data.get('name', '?')!r:.80})"
    return FieldProblem(path + (found[1] if found else ""), message)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
