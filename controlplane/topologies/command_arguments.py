"""What `manage.py deploy` and `manage.py validate` take, and how they say what is wrong."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controlplane.errors import Invalid
from controlplane.topologies.validation import file_text, pipeline_names
from domain.topology import FieldProblem


def specification_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("pipeline", help="name of a ready-made pipeline, or a file")
    parser.add_argument("--name", help="name of the topology, instead of the one in the file")
    parser.add_argument("--input", help="parquet, csv or jsonl file with a text column")
    parser.add_argument("--rate", type=int, help="tuples per second")
    parser.add_argument("--limit", type=int, help="tuples after which the topology is completed")
    parser.add_argument(
        "--cpu-request",
        type=float,
        metavar="CORES",
        help="what plans count at least for each partition of an output operator that says nothing itself",
    )
    parser.add_argument("--arrivals", help="csv file with the number of tuples that arrive in each step")
    parser.add_argument("--speedup", type=float, help="how many times as fast the times of that file pass")


def specification_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """What those arguments mean, as `specification_compose` takes it. Raises `Invalid`."""
    source = options["pipeline"]
    known = pipeline_names()
    names = ("name", "input", "rate", "limit", "arrivals", "speedup", "cpu_request")
    given = {name: options[name] for name in names if options.get(name) is not None}
    if source in known:
        return {**given, "pipeline": source}
    file = Path(source).expanduser()
    if not file.is_file():
        raise Invalid("pipeline", f"no pipeline and no file {source!r}; pipelines: {', '.join(known)}")
    return {**given, "spec": file_text(file)}


def problem_lines(problems: Iterable[FieldProblem]) -> str:
    return "\n".join(f"  {problem}" for problem in problems)
