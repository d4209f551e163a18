"""Starting an installation: servers, database, control plane, nodes, and the main job."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from host.environment import ROOT
from host.private import database_files, file_protect, home_protect
from supervision.access import Access, CommandFailedError, access_ensure, access_keep, manage, token_works
from supervision.installation import Installation, compose
from supervision.last_start import last_start_keep
from supervision.main_job import ENDED, Source, Step, deployed_keep, deployed_read, step_of
from supervision.ports import require_free
from supervision.profiles import ROOMY, Profile, profile_keep
from supervision.program import Program
from supervision.programs import control_programs, server_programs
from supervision.readiness import NotReadyError, wait_until
from supervision.replicas import MAIN_JOB_BUDGET, Replicas, replicas_set
from supervision.rest import Rest, RestError
from supervision.screen import Progress, topology_line
from supervision.spark_master import spark_recovery_clear
from supervision.stop import leftovers_end
from supervision.supervisor import Supervisor
from supervision.zookeeper import tree_close

READY_TIMEOUT = 120.0
QUERIES_TIMEOUT = 240.0
MAIN_JOB = "hashtags"


class StoppedError(RuntimeError):
    """Another command has ended what this one started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """What `make up` was told. An empty `pipeline` deploys nothing; `input`, `rate` and `limit` are those
    of `manage.py deploy`. `profile_changes`: nodes and main job of an earlier start are to become those of
    `profile`, whose numbers of nodes, slots and capacity are given too. `replicas`: whether replicas run;
    None leaves that as it is. `standbys`: nodes besides, which take over when one is lost."""

    pipeline: str = MAIN_JOB
    input: str = ""
    rate: str = ""
    limit: str = ""
    profile: Profile = ROOMY
    profile_changes: bool = False
    nodes: int = ROOMY.nodes
    standbys: int = 0
    slots: int = ROOMY.slots
    capacity: int = ROOMY.capacity
    replicas: Replicas | None = None
    wait_queries: bool = True

    @property
    def source(self) -> Source:
        return Source(pipeline=self.pipeline, input=self.input, rate=self.rate, limit=self.limit)

    @property
    def deployed_cpu_request(self) -> str:
        """What queries of the main job request, in cores; empty for what its pipeline says."""
        request = self.profile.cpu_request if self.pipeline == MAIN_JOB else None
        return "" if request is None else str(request)

    @property
    def topology(self) -> str:
        """The name of what is deployed."""
        return Path(self.pipeline).stem

    @property
    def usual_replicas(self) -> int | None:
        """The budget of replicas where only `on` is named."""
        return MAIN_JOB_BUDGET if self.pipeline == MAIN_JOB else None

    @property
    def names_input(self) -> bool:
        """Whether the pipeline is deployed with an input. Where none is given, others than the main job read
        the files that they name themselves, or the sample that is made for them."""
        return bool(self.input) or self.pipeline == MAIN_JOB


@dataclass(slots=True)
class Started:
    installation: Installation
    access: Access
    notes: list[str] = field(default_factory=list)


def start(home: Path, options: StartOptions, progress: Progress) -> Started:
    """Bring everything up, step by step. Raises `PortTakenError`, `NotReadyError`, `CommandFailedError`,
    `CoordinationUnavailableError`, `InvalidEnvironment`, `MissingProgramError`, `UnsafeHomeError` or another
    `OSError`; the caller then ends what has been started. With `StoppedError` there is nothing to end."""
    home_protect(home)
    leftovers_end(home, progress)
    profile_keep(home, options.profile, settled=not options.profile_changes)
    installation = compose(home, options.profile.settings)
    last_start_keep(home)
    for name in installation.lasting:
        progress.say(f"{name} is that of the last start, since this one names none")
    for path in database_files(installation.settings.database_url):
        file_protect(path)
    require_free(installation.settings.port)
    (installation.run / "stopping").unlink(missing_ok=True)
    spark_recovery_clear(home)
    if options.profile_changes:
        progress.say(f"profile {options.profile.name}: nodes get its size, and the main job is deployed anew")
    servers = server_programs(home, installation.ports, installation.settings, installation.embedded)
    control = control_programs(installation)
    supervisor = Supervisor(home)
    supervisor.launch(installation, [*servers, *control])
    with ThreadPoolExecutor(max_workers=2) as pool:
        sample = pool.submit(_sample_ensure, installation, options, progress)
        database = pool.submit(_database_prepare, installation, progress)
        _start_and_wait(supervisor, servers, progress)
        tree_close(installation.settings, whole_server="zookeeper" in installation.embedded)
        access = database.result()
        _order_nodes(installation, options)
        _start_and_wait(supervisor, control, progress)
        if not token_works(access):
            access = access_ensure(installation)
        started = Started(installation, access)
        if options.pipeline and token_works(access):
            _deploy(started, options, sample, progress)
            return started
        sample.result()
        if options.pipeline:
            said = "may do nothing now: topologies go on, and none is deployed"
            started.notes.append(f"Note      the account {access.user} {said}")
        else:
            profile_keep(home, options.profile, settled=True)
    return started


def _start_and_wait(supervisor: Supervisor, programs: list[Program], progress: Progress) -> None:
    """Start side by side, then wait for each."""
    for program in programs:
        supervisor.start(program.name)
    for program in programs:
        wait_until(
            program.ready,
            what=program.name,
            timeout=READY_TIMEOUT,
            alive=lambda name=program.name: supervisor.why_dead(name),  # type: ignore[misc]
        )
        progress.say(f"{program.name} is ready")


def _database_prepare(installation: Installation, progress: Progress) -> Access:
    access = access_keep(installation)
    if access is not None:
        manage(installation, "migrate", "--noinput", "--verbosity", "0")
    else:
        access = access_ensure(installation, migrate=True)
    progress.say("database is ready")
    return access


def _sample_ensure(installation: Installation, options: StartOptions, progress: Progress) -> Path:
    """The input of the main job: the operator's file, or a sample made once."""
    if options.input:
        return Path(options.input).expanduser().resolve()
    path = installation.home / "input" / "sample.parquet"
    if not options.pipeline or path.is_file():
        return path
    progress.say("making a sample of 200,000 tweets (given INPUT=file, that file is used instead)")
    finished = subprocess.run(
        [sys.executable, "-m", "spark_jobs.sources.sample", "--out", str(path)],
        cwd=ROOT,
        env=installation.environment_of("sample"),
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        raise CommandFailedError(f"no sample input: {finished.stderr.strip()[-500:]}")
    return path


def _order_nodes(installation: Installation, options: StartOptions) -> None:
    """Tell the launcher the number of nodes of this start, and whether those of the last one change."""
    order = {
        "nodes": options.nodes,
        "standbys": options.standbys,
        "slots": options.slots,
        "capacity": options.capacity,
        "resize": options.profile_changes,
    }
    (installation.run / "first-nodes.json").write_bytes(msgspec.json.encode(order))


def _deploy(started: Started, options: StartOptions, sample: Future[Path], progress: Progress) -> None:
    installation = started.installation
    rest = Rest(started.access.url, started.access.token)
    name = options.topology
    status = _status(name, rest)
    source = str(sample.result())
    step = step_of(
        status=status,
        wanted=options.source,
        last=deployed_read(installation.home),
        profile_changes=options.profile_changes,
    )
    if step in (Step.DEPLOY, Step.DEPLOY_ANEW):
        deployed_keep(installation.home, options.source, settled=False)
        if step is Step.DEPLOY_ANEW:
            progress.say(f"{name} is deployed anew: another input, rate, limit or profile is asked for")
            _undeploy(installation, name, status, rest)
        progress.say(f"waiting for {options.nodes} nodes")
        said = manage(
            installation,
            *("deploy", options.pipeline, "--if-needed"),
            *(["--input", source] if options.names_input else []),
            *("--wait-nodes", str(options.nodes), "--timeout", "180", "--reason", "make up"),
            *(["--rate", options.rate] if options.rate else []),
            *(["--limit", options.limit] if options.limit else []),
            *(["--cpu-request", options.deployed_cpu_request] if options.deployed_cpu_request else []),
        )
        deployed_keep(installation.home, options.source, settled=True)
        progress.say(said.strip() or f"{options.pipeline} deployed")
    profile_keep(installation.home, options.profile, settled=True)
    if options.replicas is not None:
        progress.say(replicas_set(rest, name, options.replicas, usual=options.usual_replicas))
    if step is Step.LEAVE or status == "paused":
        started.notes.append(
            f"Note      {name} is {status}, as it was before the start (new start: make reset)"
        )
        return
    if step is Step.GO_ON:
        progress.say(f"{name} goes on from its newest checkpoint")
    if options.wait_queries:
        _wait_for_queries(started, name, rest, progress)


def _status(name: str, rest: Rest) -> str:
    """Status of a topology, `absent` when there is none of that name. Raises `RestError`."""
    try:
        return str(rest.get(f"topologies/{name}/")["status"])
    except RestError as error:
        if error.status == 404:
            return "absent"
        raise


def _undeploy(installation: Installation, name: str, status: str, rest: Rest) -> None:
    """End what runs under this name."""
    if status in ENDED:
        return
    manage(installation, "undeploy", name, "--reason", "make up with another source or profile")

    def ended() -> bool:
        try:
            return _status(name, rest) in ENDED
        except RestError:
            return False

    wait_until(ended, what=f"end of {name}", timeout=60)


def _wait_for_queries(started: Started, name: str, rest: Rest, progress: Progress) -> None:
    """Show how the queries become available; a slow machine gets a note, not an error.

    The database may still hold the state before this start, so an epoch must have been committed since.
    Raises `StoppedError`.
    """
    supervisor = Supervisor(started.installation.home)
    deadline = time.monotonic() + QUERIES_TIMEOUT
    shown = ""
    committed: int | None = None
    while time.monotonic() < deadline:
        try:
            row = rest.get(f"topologies/{name}/")
        except RestError as error:
            with suppress(NotReadyError):  # one that is late has not ended
                if not supervisor.is_running():
                    raise StoppedError("everything was ended meanwhile, as by `make down`") from error
            time.sleep(0.5)
            continue
        committed = row["committed_epoch"] if committed is None else committed
        if row["status"] in ("completed", "failed"):
            progress.say(topology_line(row))
            outcome = f"has failed: {row['error']}" if row["status"] == "failed" else "is completed"
            started.notes.append(f"Note      {name} {outcome}"[:100])
            return
        fresh = row["committed_epoch"] > committed
        text = topology_line(row) if fresh else f"{name}: starting"
        if text != shown:
            progress.say(text)
            shown = text
        if fresh and 0 < row["queries_total"] == row["queries_available"]:
            return
        time.sleep(0.5)
    started.notes.append(f"Note      not all queries are available yet, see {started.installation.logs}")
