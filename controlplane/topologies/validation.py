"""Turning what a user gave into a validated topology, or into errors that say what and where.

The operators and the reader of files are loaded with the first topology that needs them, because pyarrow and
DuckDB come along, and most processes of the control plane validate nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from controlplane.errors import Invalid
from domain.topology import FieldProblem, Topology, TopologyError, lines_told, load_topology, load_yaml

RESERVED = ("validate",)
"""Names that a topology cannot have, because its address would mean something else. No set: a name that is a
list is asked for, too."""

OWN_DIRECTORIES = frozenset({"db", "log", "nodes", "redis", "run", "spark", "zookeeper"})
"""Of `RESURGE_HOME`. Their files hold secrets, and what is wrong with an input is told with a part of it."""

PIPELINES = Path(__file__).resolve().parents[2] / "spark_jobs" / "pipelines"


def spec_validate(spec: Any) -> Topology:
    """Validate a specification; raises `Invalid` with the path of every fault."""
    if not isinstance(spec, Mapping):
        raise Invalid("spec", "a topology is a mapping with `name` and `operators`")
    if spec.get("name") in RESERVED:
        raise Invalid("name", f"{spec['name']!r} is an address of REST; choose another name")
    from spark_jobs.operators.catalogue import catalogue

    try:
        return load_topology(spec, catalogue)
    except TopologyError as error:
        raise Invalid.from_topology(error) from error


def spec_read(given: Any) -> dict[str, Any]:
    """A specification as an object or as YAML (or JSON) text; raises `Invalid`."""
    if isinstance(given, str):
        try:
            return load_yaml(given)
        except TopologyError as error:
            raise Invalid.from_topology(error) from error
    if not isinstance(given, dict):
        raise Invalid("spec", "a topology is a mapping with `name` and `operators`")
    return given


@contextmanager
def lines_known(given: Mapping[str, Any]) -> Iterator[None]:
    """`Invalid` raised inside names the lines of `given["spec"]`, where that is a text."""
    try:
        yield
    except Invalid as error:
        text = given.get("spec")
        if not isinstance(text, str):
            raise
        raise Invalid.from_problems(lines_told(text, error.problems, elsewhere=_elsewhere(given))) from error


def _elsewhere(given: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({"name"} if given.get("name") else ())


def pipeline_names() -> list[str]:
    """Ready-made pipelines, by name."""
    return sorted(path.stem for path in PIPELINES.glob("*.yaml"))


def pipeline_read(name: str) -> dict[str, Any]:
    """The specification of a ready-made pipeline; raises `Invalid`. Names no other file."""
    return spec_read(pipeline_text(name))


def pipeline_text(name: str) -> str:
    """The same as YAML; raises `Invalid`."""
    known = pipeline_names()
    if name not in known:
        raise Invalid(
            "pipeline", f"there is no pipeline {name!r:.80}; pipelines: {', '.join(known) or 'none'}"
        )
    return file_text(PIPELINES / f"{name}.yaml")


def file_text(path: Path) -> str:
    """The text of a file of this host; raises `Invalid`."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(str(path), f"cannot be read: {error}") from error


def source_params_override(
    spec: dict[str, Any],
    *,
    path: str | None = None,
    rate: int | None = None,
    limit: int | None = None,
    arrivals: str | None = None,
    speedup: float | None = None,
) -> dict[str, Any]:
    """A copy of `spec` whose source operators (those without inputs) read `path` at `rate`, or at the rates
    of the file `arrivals` with `speedup`, up to `limit`. Rates of a file replace the rate of `spec`."""
    given = {
        "path": _absolute("input", path),
        "rate": rate,
        "limit": limit,
        "arrivals": _absolute("arrivals", arrivals),
        "speedup": speedup,
    }
    overrides = {name: value for name, value in given.items() if value is not None}
    replaced = {"rate"} if arrivals is not None else set()
    operators = spec.get("operators")
    if not overrides or not isinstance(operators, list):
        return spec
    changed = []
    for operator in operators:
        if isinstance(operator, dict) and not operator.get("inputs"):
            params = operator.get("params") or {}
            if isinstance(params, dict):
                kept = {name: value for name, value in params.items() if name not in replaced}
                operator = {**operator, "params": {**kept, **overrides}}
        changed.append(operator)
    return {**spec, "operators": changed}


def cpu_requests_set(spec: dict[str, Any], cores: float | None) -> dict[str, Any]:
    """A copy of `spec` in which output operators that request no CPU themselves request `cores`."""
    operators = spec.get("operators")
    if cores is None or not isinstance(operators, list):
        return spec
    changed = [
        {**one, "cpu_request": cores}
        if isinstance(one, dict) and one.get("output") and "cpu_request" not in one
        else one
        for one in operators
    ]
    return {**spec, "operators": changed}


def _absolute(name: str, path: str | None) -> str | None:
    """Drivers run elsewhere in the tree, so a relative path would mean another file there."""
    if path is None or "://" in path:
        return path
    try:
        return str(Path(path).expanduser().resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise Invalid(name, f"{path!r:.80} is no path: {error}") from None


def inputs_require(spec: Mapping[str, Any]) -> None:
    """Check that the files the sources name are there and begin as such a file must; raises `Invalid`.

    Only local paths are looked at: a URL, or a reader of the user's own, is the driver's business.
    """
    problems = inputs_problems(spec)
    if problems:
        raise Invalid.from_problems(problems)


def inputs_problems(spec: Mapping[str, Any]) -> list[FieldProblem]:
    """What is wrong with the files the sources of a valid specification name."""
    problems: list[FieldProblem] = []
    for index, operator in enumerate(spec["operators"]):
        params = operator.get("params", {})
        for name in ("path", "arrivals"):
            path = params.get(name)
            if operator.get("inputs") or not isinstance(path, str) or "://" in path:
                continue
            try:
                problem = _input_problem(name, Path(path), params)
            except (OSError, ValueError) as error:  # too long a name, a NUL in it
                problem = f"{path!r:.80} cannot be looked at: {error}"
            if problem:
                problems.append(FieldProblem(f"operators[{index}].params.{name}", problem))
    return problems


def _is_own(file: Path) -> bool:
    home: Path = settings.RESURGE.home
    place = file.expanduser().resolve()
    return place.is_relative_to(home) and not OWN_DIRECTORIES.isdisjoint(place.relative_to(home).parts[:1])


def _input_problem(name: str, file: Path, params: Mapping[str, Any]) -> str:
    from spark_jobs.sources.looking import look_at
    from spark_jobs.sources.problems import SourceError

    if _is_own(file):
        return f"{str(file)!r} belongs to the installation itself, and is no input"
    if not file.exists():
        return f"there is no file {str(file)!r}"
    if not os.access(file, os.R_OK):
        return f"{str(file)!r} cannot be read; check its permissions"
    if not (file.is_file() or file.is_dir()):
        return f"{str(file)!r} is neither a file nor a directory"
    if file.is_file() and file.stat().st_size == 0:
        return f"{str(file)!r} is empty"
    try:
        look_at(name, file, params)
    except SourceError as error:
        return f"{error.what}. {error.hint}"
    return ""
