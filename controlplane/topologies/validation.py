"""Turning what a user gave into a validated topology, or into errors that say what and where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.domain.topology import Problem, Topology, TopologyError, load_topology, load_yaml
from controlplane.errors import Invalid
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.sources.prepare import look
from spark_jobs.sources.problems import SourceError

PIPELINES = Path(__file__).resolve().parents[2] / "spark_jobs" / "pipelines"


def spec_validate(spec: Any) -> Topology:
    """Validate a specification; raises `Invalid` with the path of every fault."""
    if not isinstance(spec, Mapping):
        raise Invalid("spec", "a topology is a mapping with `name` and `operators`")
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


def pipeline_names() -> list[str]:
    """Ready-made pipelines, by name."""
    return sorted(path.stem for path in PIPELINES.glob("*.yaml"))


def pipeline_read(source: str) -> dict[str, Any]:
    """Read a specification by pipeline name or from a YAML or JSON file.

    Raises `Invalid` when there is no such pipeline or file, or when it is not YAML.
    """
    path = PIPELINES / f"{source}.yaml" if "/" not in source else Path(source)
    if not path.is_file():
        path = Path(source).expanduser()
    if not path.is_file():
        known = ", ".join(pipeline_names()) or "none"
        raise Invalid("pipeline", f"no pipeline and no file {source!r}; pipelines: {known}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(str(path), f"cannot be read: {error}") from error
    try:
        return load_yaml(text)
    except TopologyError as error:
        raise Invalid.from_problems(
            Problem(f"{path.name}, {problem.path}", problem.message) for problem in error.problems
        ) from error


def source_params_override(
    spec: dict[str, Any], *, path: str | None = None, rate: int | None = None, limit: int | None = None
) -> dict[str, Any]:
    """A copy of `spec` whose source operators (those without inputs) read `path` at `rate` up to `limit`."""
    given = {"path": _absolute(path), "rate": rate, "limit": limit}
    overrides = {name: value for name, value in given.items() if value is not None}
    operators = spec.get("operators")
    if not overrides or not isinstance(operators, list):
        return spec
    changed = []
    for operator in operators:
        if isinstance(operator, dict) and not operator.get("inputs"):
            operator = {**operator, "params": {**(operator.get("params") or {}), **overrides}}
        changed.append(operator)
    return {**spec, "operators": changed}


def _absolute(path: str | None) -> str | None:
    """Drivers run elsewhere in the tree, so a relative path would mean another file there."""
    if path is None or "://" in path:
        return path
    return str(Path(path).expanduser().resolve())


def inputs_require(spec: Mapping[str, Any]) -> None:
    """Check that the files the sources name are there and begin as such a file must; raises `Invalid`.

    Only local paths are looked at: a URL, or a reader of the user's own, is the driver's business.
    """
    problems: list[Problem] = []
    for index, operator in enumerate(spec["operators"]):
        params = operator.get("params", {})
        path = params.get("path")
        if operator.get("inputs") or not isinstance(path, str) or "://" in path:
            continue
        where = f"operators[{index}].params.path"
        file = Path(path)
        if not file.exists():
            problems.append(Problem(where, f"there is no file {path!r}"))
        elif not os.access(file, os.R_OK):
            problems.append(Problem(where, f"{path!r} cannot be read; check its permissions"))
        elif file.is_file() and file.stat().st_size == 0:
            problems.append(Problem(where, f"{path!r} is empty"))
        elif params.get("reader") in (None, "file"):
            options = {name: params[name] for name in ("text", "ts", "ts_unit") if params.get(name)}
            try:
                look(file, **options)
            except SourceError as error:
                problems.append(Problem(where, f"{error.what} {error.hint}"))
    if problems:
        raise Invalid.from_problems(problems)
