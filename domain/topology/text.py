"""From untrusted YAML or JSON to plain data of a bearable size. The only place where YAML is read."""

from __future__ import annotations

import re
from typing import Any

import yaml

from domain.plain_data import MAX_DEPTH, MAX_VALUES, NotPlainError, plain_require
from domain.topology.spec import FieldProblem, TopologyError

MAX_TEXT = 1_000_000
MAX_NUMBER = 100
"""Characters of an untrusted text, and of a number in it."""

MOST_DIRECTIVES = 10
"""Lines that begin with %. Each is compared with all before it, while no other thread can run."""

_NUMBER_TAGS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_NUMERIC = re.compile(r"[-+0-9a-fA-FxoeE_:.]+")

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(text: str) -> dict[str, Any]:
    """Parse YAML or JSON into plain data; raises `TopologyError` with line and column."""
    if len(text) > MAX_TEXT:
        raise TopologyError([FieldProblem("", f"{len(text)} characters; at most {MAX_TEXT} are read")])
    if sum(line.startswith("%") for line in text.splitlines()) > MOST_DIRECTIVES:
        raise TopologyError([FieldProblem("", f"more than {MOST_DIRECTIVES} lines that begin with %")])
    try:
        _bounded_require(text)
        _unique_require(text)
        data = yaml.load(text, _Loader)  # noqa: S506 - both loaders are the safe ones
    except TopologyError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "file"
        problem = getattr(error, "problem", None)
        message = f"this cannot be read as YAML{f': {problem}' if problem else ''}"
        raise TopologyError([FieldProblem(where, message)]) from error
    except (ValueError, OverflowError) as error:  # a date that is none, a number larger than any float
        raise TopologyError([FieldProblem("", f"not YAML: {error}")]) from error
    except (LookupError, AttributeError) as error:  # raised by PyYAML, such as for `!!bool maybe`
        what = "not YAML: a value does not fit its tag (`!!bool`, `!!int`, `!!float` or `!!timestamp`)"
        raise TopologyError([FieldProblem("", what)]) from error
    if not isinstance(data, dict):
        raise TopologyError([FieldProblem("", "a topology is a mapping with `name` and `operators`")])
    try:
        plain_require(data)
    except NotPlainError as error:
        raise TopologyError([FieldProblem(error.path, error.message)]) from error
    return data


def compose_yaml(text: str) -> yaml.Node:
    """The nodes of a text that `load_yaml` takes, with their places; raises `TopologyError` for any other."""
    load_yaml(text)
    return yaml.compose(text, _Loader)


def _bounded_require(text: str) -> None:
    """Refuse what would take too long, or too deep a stack, to make values of; walking the events takes
    neither. An alias counts as all that it names, since a merge key copies that.

    Raises `TopologyError` and `YAMLError`.
    """
    total = 0
    began: list[tuple[str | None, int]] = []  # the anchor of each open collection, and the total before it
    sizes: dict[str, int | None] = {}  # of what each anchor names; None while that is still open
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            began.append((event.anchor, total))
            if event.anchor:
                sizes[event.anchor] = None
            if len(began) > MAX_DEPTH:
                raise _refusal(event, f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = began.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor, 0)  # an unknown one is reported when values are made
            if size is None:
                raise _refusal(event, f"the alias *{event.anchor} is part of what it names")
            total += size
            continue
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor:
                sizes[event.anchor] = 1
            if len(event.value) > MAX_NUMBER and _may_be_number(event):
                raise _refusal(
                    event, f"a number of more than {MAX_NUMBER} characters; quote it if it is text"
                )
        else:
            continue
        total += 1
        if total > MAX_VALUES:
            break
    if total > MAX_VALUES:
        raise TopologyError(
            [FieldProblem("", f"more than {MAX_VALUES} values, aliases and merge keys included")]
        )


def _unique_require(text: str) -> None:
    """Refuse a field that is given twice: YAML readers keep the last one and say nothing.

    Raises `TopologyError` and `YAMLError`.
    """
    # Of each open collection: the fields so far, None for a list, and whether a field's name comes next.
    opened: list[tuple[set[str] | None, bool]] = []

    def passed(event: Any = None) -> None:
        """A whole value, or a field's name, has gone by; `event` if it is a plain one."""
        if not opened:
            return
        fields, named = opened[-1]
        if fields is None:
            return
        if named and event is not None:
            if event.value in fields:
                raise _refusal(event, f"the field {event.value!r:.60} is given twice")
            fields.add(event.value)
        opened[-1] = (fields, not named)

    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.MappingStartEvent):
            opened.append((set(), True))
        elif isinstance(event, yaml.SequenceStartEvent):
            opened.append((None, False))
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
            passed()
        elif isinstance(event, yaml.ScalarEvent):
            passed(event)
        elif isinstance(event, yaml.AliasEvent):
            passed()


def _may_be_number(event: Any) -> bool:
    """Whether YAML may take the scalar for a number. Those in base 60 take quadratic time to read."""
    if event.tag is not None:
        return event.tag in _NUMBER_TAGS
    return not event.style and _NUMERIC.fullmatch(event.value) is not None


def _refusal(event: Any, message: str) -> TopologyError:
    mark = event.start_mark
    return TopologyError([FieldProblem(f"line {mark.line + 1}, column {mark.column + 1}", message)])
