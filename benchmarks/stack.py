"""The whole product on real processes, for benchmarks: the stack of the integration tests with methods for
measurements, and signals that end it in order.

    with stopping_in_order(), running_stack(nodes=5, variables={...}) as stack:
        stack.deploy_spec(pipeline_spec(rate=1000), input=path)
        stack.healthy()
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlencode

from benchmarks.engine import PIPELINE
from domain.topology import load_yaml
from harness.stack import Stack, settings_of_the_shell_replaced
from host.environment import ROOT
from supervision.access import CommandFailedError
from supervision.readiness import NotReadyError
from supervision.rest import Rest, RestError
from supervision.start import start

TOPOLOGY = "hashtags"
ENDED = ("closed", "aborted")
PAGE = 1000


class StackError(RuntimeError):
    """The benchmark waited for a state in vain; the message says for which, and where the logs are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `manage.py verify` said. `faults`: rows missing, twice, unexpected or different, per query."""

    clean: bool
    queries: int
    rows: int
    faults: dict[str, dict[str, int]]


def pipeline_spec(
    *,
    rate: int,
    epoch_interval: float,
    parallelism: int | None = None,
    priorities: Callable[[int], int] | None = None,
) -> dict[str, Any]:
    """The fifteen-query pipeline; with `parallelism`, that many sources and parsers. `priorities` gives that
    of query O<n> by its number."""
    spec: dict[str, Any] = load_yaml(PIPELINE.read_text(encoding="utf-8"))
    spec["epoch_interval"] = epoch_interval
    for operator in spec["operators"]:
        if parallelism is not None and operator["name"] in ("Source", "Parser"):
            operator["parallelism"] = parallelism
        if operator["name"] == "Source":
            operator["params"] = {**operator["params"], "rate": rate}
        if priorities is not None and operator.get("output"):
            operator["priority"] = priorities(int(operator["name"].removeprefix("O")))
    return spec


class BenchmarkStack(Stack):
    """A `Stack` that is asked for measurements. After a failure its logs are copied to `keep`."""

    keep: Path | None = None

    def up(self) -> None:
        with settings_of_the_shell_replaced({**self._variables, "RESURGE_HOME": str(self.home)}):
            started = start(self.home, self._options, self._progress)
        self.installation, self.access = started.installation, started.access
        # Ten nodes load a small machine fully: a slow answer is no error.
        self.rest = Rest(self.access.url, self.access.token, timeout=60.0)
        wanted = self._options.nodes + self._options.standbys
        self.expect(lambda: len(self.nodes("alive")) >= wanted, f"{wanted} nodes alive", timeout=240)

    def deploy_spec(self, spec: Mapping[str, Any], *, input: str | Path | None = None) -> None:  # noqa: A002
        """Deploy a specification; without `input`, from a sample that the project makes."""
        path = self.home / "benchmark-pipeline.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        self.manage("deploy", str(path), "--input", str(input or self.sample()))
        # What is measured says itself when something moves or stops.
        policy = dict.fromkeys(("rebalancing", "overload", "slow_nodes"), "manual")
        policy["reason"] = "benchmark"
        self.rest.patch(f"topologies/{spec['name']}/policy/", policy)

    def sample(self) -> Path:
        """The project's own sample tweets, made once."""
        from spark_jobs.sources.sample import sample_write

        path = self.home / "input" / "sample.parquet"
        if not path.is_file():
            sample_write(path)
        return path

    def policy_set(self, **fields: Any) -> None:
        """Set fields of the recovery policy (`method`, `planner`, `rollback`, ...)."""
        self.rest.patch(f"topologies/{TOPOLOGY}/policy/", {**fields, "reason": "benchmark"})

    def patiently(self, action: Callable[[], object]) -> None:
        """Repeat a REST call that a restarting server refuses, for some seconds."""

        def done() -> bool:
            action()
            return True

        self.expect(done, "an answer of the control plane", timeout=30)

    def nodes_update(self, names: Collection[str], **fields: Any) -> None:
        """Set fields of these nodes in the control plane's database, whatever the REST API permits."""
        chosen = f"Node.objects.filter(name__in={sorted(names)})"
        code = f"from controlplane.nodes.models import Node; {chosen}.update(**{fields})"
        self.manage("shell", "--no-imports", "-c", code)

    def node_runs(self, name: str) -> bool:
        """Whether the processes of a node are alive, whatever the control plane believes."""
        record = self._nodes.get(name)
        return record is not None and record.alive

    def partitions(self) -> dict[str, dict[str, Any]]:
        """Partition id -> its row (`node`, `state`, `cpu` in CPU seconds per second)."""
        rows = self.rest.listing(f"topologies/{TOPOLOGY}/partitions/?limit={PAGE}")
        return {str(row["partition"]): row for row in rows}

    def homes(self) -> dict[str, list[str]]:
        """Alive node -> the partitions on it."""
        found: dict[str, list[str]] = {name: [] for name in sorted(self.nodes("alive"))}
        for partition, row in self.partitions().items():
            if row["node"] in found:
                found[str(row["node"])].append(partition)
        return found

    def queries(self) -> dict[str, dict[str, Any]]:
        rows = self.rest.listing(f"topologies/{TOPOLOGY}/queries/?limit={PAGE}")
        return {str(row["partition"]): row for row in rows}

    def events(self, *, after: int = 0, kinds: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Every numbered event after a sequence number, in order."""
        found: list[dict[str, Any]] = []
        while True:
            query = urlencode([("after", after), ("limit", PAGE), *(("kind", kind) for kind in kinds)])
            answer = self.rest.get(f"events/?{query}")
            found += answer["results"]
            if answer["next"] is None:
                return found
            after = found[-1]["sequence"]

    def last_sequence(self) -> int:
        return int(self.rest.get("events/?limit=1")["last_sequence"])

    def plans(self, incident: int) -> list[dict[str, Any]]:
        return self.rest.listing(f"incidents/{incident}/plans/?limit={PAGE}")

    def incident_costs(self, number: int) -> dict[str, float]:
        """What each partition counted for in an incident, in CPU percent."""
        code = (
            "import json; from controlplane.incidents.models import Incident; "
            f"print(json.dumps(Incident.objects.get(number={number}).costs))"
        )
        costs = json.loads(self.manage("shell", "--no-imports", "-c", code).splitlines()[-1])
        return dict(costs.get(TOPOLOGY, {}))

    def node_requests(self, incident: int) -> list[dict[str, Any]]:
        rows = self.rest.listing(f"node-requests/?limit={PAGE}")
        return [row for row in rows if row["incident"] == incident]

    def is_healthy(self) -> bool:
        """Running, every query available, caught up, no incident open."""
        topology = self.topology(TOPOLOGY)
        return (
            topology["status"] == "running"
            and topology["queries_available"] == topology["queries_total"] > 0
            and topology["head_epoch"] - topology["committed_epoch"] <= 3
            and all(row["state"] in ENDED for row in self.incidents())
        )

    def healthy(self, *, timeout: float = 300.0) -> None:
        self.expect(self.is_healthy, "every query available and no incident open", timeout=timeout)

    def expect(self, predicate: Callable[[], object], what: str, *, timeout: float) -> None:
        """Wait until `predicate()` is true; raises `StackError` with the present state."""
        try:
            self.wait_for(predicate, what, timeout=timeout, pause=0.3)
        except AssertionError as error:
            raise StackError(f"{error}; {self.summary()}; logs: {self.home / 'log'}") from error

    def summary(self) -> str:
        """The present state in one line, for a message."""
        try:
            topology = self.topology(TOPOLOGY)
            incidents = [f"incident {row['number']} {row['state']}" for row in self.incidents()][-1:]
            nodes = ", ".join(sorted(self.nodes("alive")))
        except (RestError, OSError, LookupError) as error:
            return f"the control plane does not answer ({error})"
        return (
            f"topology {topology['status']}, {topology['queries_available']} of "
            f"{topology['queries_total']} queries, epoch {topology['committed_epoch']} of "
            f"{topology['head_epoch']}, {', '.join(incidents) or 'no incident'}, alive: {nodes or 'none'}"
        )

    def verify(self) -> Verdict:
        """`manage.py verify`: every row of every query up to the last committed epoch."""
        finished = subprocess.run(
            [sys.executable, "manage.py", "verify", TOPOLOGY, "--json"],
            cwd=ROOT,
            env=self.installation.environment_of("manage"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode not in (0, 1):
            raise StackError(f"verify: {finished.stderr.strip()[-500:]}")
        return verdict_of(json.loads(finished.stdout))

    def _keep_logs(self) -> None:
        if self.keep is not None:
            shutil.copytree(self.home / "log", self.keep, dirs_exist_ok=True)


def verdict_of(result: Mapping[str, Any]) -> Verdict:
    """The verdict in what `verify --json` printed; a query that was not compared is not clean."""
    kinds = ("missing", "duplicate", "unexpected", "different")
    faults: dict[str, dict[str, int]] = {}
    for query in result["queries"]:
        if not query["clean"] or query.get("skipped"):
            counted = {kind: int(query[kind]) for kind in kinds if query[kind]}
            faults[query["query"]] = counted or {"not compared": 1}
    return Verdict(
        clean=bool(result["clean"]) and not faults and len(result["queries"]) > 0,
        queries=len(result["queries"]),
        rows=sum(int(query["found"]) for query in result["queries"]),
        faults=faults,
    )


@contextmanager
def running_stack(
    *,
    nodes: int,
    variables: Mapping[str, str],
    standbys: int = 0,
    slots: int = 2,
    capacity: int = 100,
    keep_logs: Path | None = None,
) -> Iterator[BenchmarkStack]:
    """A stack in a temporary home, which is removed at the end, also after an error; then its logs are copied
    to `keep_logs`. capacity: CPU percent of a node. Raises `StackError` for all errors of the stack."""
    with (
        tempfile.TemporaryDirectory(prefix="resurge-benchmark-", ignore_cleanup_errors=True) as name,
        stack_on(
            Path(name),
            nodes=nodes,
            standbys=standbys,
            slots=slots,
            capacity=capacity,
            variables=variables,
            keep_logs=keep_logs,
        ) as stack,
    ):
        yield stack


@contextmanager
def stack_on(
    directory: Path,
    *,
    nodes: int,
    variables: Mapping[str, str],
    standbys: int = 0,
    slots: int = 2,
    capacity: int = 100,
    keep_logs: Path | None = None,
) -> Iterator[BenchmarkStack]:
    """The same in a directory that there is, and stays."""
    stack = BenchmarkStack(
        directory, nodes=nodes, standbys=standbys, slots=slots, capacity=capacity, variables=variables
    )
    stack.keep = keep_logs
    try:
        with stack:
            yield stack
    except (AssertionError, RestError, CommandFailedError, NotReadyError, OSError) as error:
        raise StackError(f"{type(error).__name__}: {error}") from error


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP have the effect of Ctrl-C, so that all started processes are ended."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def input_file() -> Path | None:
    """INPUT=file: real tweets instead of the sample."""
    named = os.environ.get("INPUT", "").strip()
    return Path(named).expanduser().resolve() if named else None


def seconds_of(instant: str) -> float:
    """An ISO 8601 time as Unix seconds."""
    return datetime.fromisoformat(instant).timestamp()
