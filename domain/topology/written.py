"""Specifications as YAML for people who edit them."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from domain.topology.spec import InputSpec, OperatorSpec, ParquetSinkSpec, TopologySpec

SHORT = 60
"""Characters of a list or mapping that is written in one line."""


class _Dumper(yaml.SafeDumper):
    """Writes what is short in one line, as authors do, and texts of several lines as blocks."""

    def represent_mapping(self, tag: str, mapping: Any, **_: Any) -> yaml.MappingNode:
        return super().represent_mapping(tag, mapping, flow_style=_is_short(mapping))

    def represent_sequence(self, tag: str, sequence: Any, **_: Any) -> yaml.SequenceNode:
        return super().represent_sequence(tag, sequence, flow_style=_is_short(sequence))

    def increase_indent(self, flow: bool = False, **_: Any) -> None:
        super().increase_indent(flow, indentless=False)


def _is_short(value: Any) -> bool:
    """A flat mapping, or a list of flat ones, in so few characters."""
    flat = all(_is_flat(one) for one in value) if isinstance(value, list | tuple) else _is_flat(value)
    return flat and len(repr(value)) <= SHORT and "\\n" not in repr(value)


def _is_flat(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return not any(isinstance(one, dict | list | tuple) for one in inner)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def specification_text(specification: dict[str, Any]) -> str:
    """A stored specification as YAML, without the fields that have their default."""
    told = _told(specification, TopologySpec)
    if "sink" in told:
        told["sink"] = _told(told["sink"], ParquetSinkSpec)
    told["operators"] = [
        {
            name: [_told(one, InputSpec) for one in value] if name == "inputs" else value
            for name, value in _told(operator, OperatorSpec).items()
        }
        for operator in told["operators"]
    ]
    return dump_yaml(told)


def _told(value: dict[str, Any], of: type[msgspec.Struct]) -> dict[str, Any]:
    """In the order of the struct's fields; what the struct does not know comes last."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(of)}
    names = [*(name for name in fields if name in value), *(name for name in value if name not in fields)]
    return {
        name: value[name]
        for name in names
        if name not in fields or not _is_default(fields[name], value[name])
    }


def _is_default(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    default: Any = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is msgspec.NODEFAULT:
        return False
    return bool(msgspec.json.decode(msgspec.json.encode(default)) == value)


def dump_yaml(specification: dict[str, Any]) -> str:
    """A specification as text for people: fields in their order, short lists and mappings in one line."""
    return yaml.dump(specification, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
