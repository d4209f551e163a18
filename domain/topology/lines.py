"""The lines of a YAML or JSON text on which faults were found."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec
import yaml

from domain.topology.spec import FieldProblem, TopologyError
from domain.topology.text import compose_yaml

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def lines_told(
    text: str, problems: Iterable[FieldProblem], *, elsewhere: Collection[str] = ()
) -> list[FieldProblem]:
    """The problems with the lines of `text` that their paths name, or of the nearest part around them.
    elsewhere: paths whose values were not given by the text. A text that cannot be read has no lines."""
    found = list(problems)
    try:
        root = compose_yaml(text)
    except TopologyError:
        return found
    return [
        problem
        if problem.path in elsewhere
        else msgspec.structs.replace(problem, line=_line(root, problem.path))
        for problem in found
    ]


def _line(root: yaml.Node, path: str) -> int | None:
    """The line (from 1) of what `path` names; None where not even its first step is in the text."""
    node, line = root, None
    for index, name in _STEP.findall(path):
        if index and isinstance(node, yaml.SequenceNode) and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line
        elif name and isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == name), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        else:
            break
    return None if line is None else line + 1
