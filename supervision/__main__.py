"""`python -m supervision up|down|reset|status|logs`: what `make up` and its siblings call."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from domain.values import LARGEST_CAPACITY, MOST_NODES, MOST_SLOTS
from host.environment import InvalidEnvironment
from host.java import MissingProgramError
from host.private import home_protect
from supervision.access import CommandFailedError, access_path, access_read
from supervision.follow import INTERVAL, follow
from supervision.installation import home_directory, recorded
from supervision.last_start import last_start_notes
from supervision.logs import logs_show
from supervision.ports import PortTakenError
from supervision.profiles import Choice, Profile, profile_choose
from supervision.readiness import NotReadyError
from supervision.replicas import Replicas, replicas_named, replicas_set
from supervision.reset import NotResetError, reset, reset_warning
from supervision.rest import Rest, RestError
from supervision.screen import Progress, access_box
from supervision.start import MAIN_JOB, Started, StartOptions, StoppedError, start
from supervision.status import status_show
from supervision.stop import left_in_part, stop
from supervision.supervisor import Supervisor
from supervision.turns import turn_to_start, turn_to_stop

STOP_DETACHED = "make down"
STOP_FOREGROUND = "Ctrl-C, or `make down`"
STARTING = "an installation is starting in {home}: wait for it, or `make down`"


EXPECTED = (NotReadyError, CommandFailedError, RestError, InvalidEnvironment, MissingProgramError, OSError)
"""Why an installation does not start, each with a sentence that says what to do."""


class BusyError(RuntimeError):
    """Another command starts the installation."""


class Interrupted(BaseException):
    """Ctrl-C, `kill` or a closed terminal while starting or following."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m supervision", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "reset", "status", "logs"))
    parser.add_argument("--detach", action="store_true", help="up: return when everything runs")
    parser.add_argument("--yes", action="store_true", help="reset: do not ask")
    parser.add_argument("--follow", action="store_true", help="logs: follow new lines")
    parser.add_argument("names", nargs="*", help="logs: processes to show, all by default")
    options = parser.parse_args()
    home = home_directory()
    match options.command:
        case "up":
            return _up(home, detach=options.detach or os.environ.get("DETACH", "") not in ("", "0"))
        case "down":
            return _down(home)
        case "reset":
            return _reset(home, confirmed=options.yes or os.environ.get("YES", "") not in ("", "0"))
        case "status":
            return status_show(home)
        case _:
            return logs_show(home, names=options.names, follow=options.follow)


def _up(home: Path, *, detach: bool) -> int:
    progress = Progress()
    try:
        chosen = profile_choose(home, os.environ.get("PROFILE", "").strip())
        replicas = _replicas()
        if _runs(home, progress):
            at_once = StartOptions(pipeline=_pipeline(), replicas=replicas)
            return _already_up(home, chosen, at_once, progress)
        options = _options_from_environment(chosen)
    except ValueError as error:  # also `InvalidProfile`
        sys.stderr.write(f"{error}\n")
        return 2
    except NotReadyError as error:
        sys.stderr.write(f"not started: {error} (`make down` ends what runs)\n")
        return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        started = _start(home, options, progress)
        stop_text = STOP_DETACHED if detach else STOP_FOREGROUND
        _show_access(started, options.profile, progress, stop_text=stop_text)
        if detach:
            return 0
        _follow(started, progress)
        sys.stderr.write("the supervisor has ended (was it stopped from elsewhere?)\n")
        return 0
    except Interrupted:
        return _interrupted(home, progress, detach=detach)
    except (PortTakenError, BusyError, StoppedError) as error:
        sys.stderr.write(f"\nnot started: {error}\n")
        return 1
    except Exception as error:
        if _came_of_an_interruption(error):
            return _interrupted(home, progress, detach=detach)
        _ignore_signals()
        expected = isinstance(error, EXPECTED)
        said = f"not started: {error}" if expected else "not started, by an error of this program:"
        sys.stderr.write(f"\n{said}\n(logs are in {home / 'log'})\n")
        stop(home, progress)
        if not expected:
            raise
        return 1


def _runs(home: Path, progress: Progress) -> bool:
    """Whether an installation runs. What an interrupted start or stop has left of one is ended first."""
    supervisor = Supervisor(home)
    if supervisor.is_running():
        with turn_to_start(home) as ours:
            if ours and left_in_part(home):
                progress.say("an earlier start or stop was interrupted: what it left is ended first")
                stop(home, progress)
    return supervisor.is_running()


def _start(home: Path, options: StartOptions, progress: Progress) -> Started:
    """Raises `BusyError` where another command starts the installation, and what `start` raises."""
    home_protect(home, files=False)
    with turn_to_start(home) as ours:
        with turn_to_stop(home):
            pass  # one that has begun has ended now
        if not ours or Supervisor(home).is_running():
            raise BusyError(STARTING.format(home=home))
        return start(home, options, progress)


def _follow(started: Started, progress: Progress) -> None:
    """Show what happens, until the supervisor has ended. What cannot be shown stops nothing."""
    said = ""
    while True:
        try:
            follow(started.installation, started.access)
        except Exception as error:
            if _came_of_an_interruption(error):
                raise
            why = f"{type(error).__name__}: {error}"
            if why != said:  # once, not every two seconds
                progress.say(f"what happens cannot be shown here ({why}); everything goes on")
            said = why
            time.sleep(INTERVAL)
        else:
            return


def _interrupted(home: Path, progress: Progress, *, detach: bool) -> int:
    _ignore_signals()
    progress.show("")
    progress.say("stopping everything")
    stop(home, progress)
    progress.say("stopped; no process is left")
    return 0 if not detach else 130


def _came_of_an_interruption(error: BaseException | None) -> bool:
    """A library may fail while it cleans up what was interrupted, and its error takes the place of ours."""
    while error is not None:
        if isinstance(error, Interrupted):
            return True
        error = error.__context__
    return False


def _already_up(home: Path, chosen: Choice, options: StartOptions, progress: Progress) -> int:
    """Shows what runs. Of what the command names, only whether replicas run takes effect at once."""
    installation, access = recorded(home), access_read(home)
    with turn_to_start(home) as ours:
        starting = not ours
    if starting or installation is None or access is None:
        sys.stderr.write(STARTING.format(home=home) + "\n")
        return 1
    progress.show("Resurge runs already:")
    running = profile_choose(home, "").profile
    started = Started(installation, access)
    if chosen.profile != running:
        started.notes.append(
            f"Note      for PROFILE={chosen.profile.name} run `make down`, then this command again"
        )
    started.notes += last_start_notes(home, os.environ)
    if options.replicas is not None:
        rest = Rest(access.url, access.token)
        said = replicas_set(rest, options.topology, options.replicas, usual=options.usual_replicas)
        started.notes.append(f"Replicas  {said}")
    _show_access(started, running, progress, stop_text=STOP_DETACHED)
    return 0


def _down(home: Path) -> int:
    _ignore_signals()
    progress = Progress()
    if stop(home, progress):
        progress.say("stopped; no process is left")
    else:
        progress.show(f"nothing was running in {home}")
    return 0


def _reset(home: Path, *, confirmed: bool) -> int:
    progress = Progress()
    progress.show(reset_warning(home))
    if not confirmed:
        if not sys.stdin.isatty():
            sys.stderr.write("nothing is changed: without a terminal, confirm with `make reset YES=1`\n")
            return 2
        sys.stdout.write("Type `reset` to go on: ")
        sys.stdout.flush()
        if sys.stdin.readline().strip() != "reset":
            sys.stderr.write("nothing is changed\n")
            return 1
    _ignore_signals()
    try:
        kept = reset(home, progress)
    except (NotResetError, InvalidEnvironment, OSError) as error:
        sys.stderr.write(f"not reset: {error}\n")
        return 1
    if kept is not None:
        progress.say(f"outputs are kept in {kept}")
    progress.say("the next `make up` starts from nothing")
    return 0


def _show_access(started: Started, profile: Profile, progress: Progress, *, stop_text: str) -> None:
    access_file = str(access_path(started.installation.home))
    # What a deployment prints is kept in a log, such as that of its container.
    hidden = started.installation.settings.https
    known = f"in {access_file}" if hidden else started.access.password
    progress.show(
        access_box(
            url=started.access.url,
            user=started.access.user,
            password=known if started.access.password else "as it was changed",
            access_file=access_file,
            profile=f"{profile.name}: {profile.about}",
            stop=stop_text,
            notes=started.notes,
        )
    )


def _options_from_environment(chosen: Choice) -> StartOptions:
    """`INPUT=`, `RATE=`, `LIMIT=`, `NODES=`, `STANDBYS=`, `PIPELINE=`, `REPLICAS=` as make hands them on,
    else what the profile says. Raises `ValueError`."""
    given = {name: os.environ.get(name, "").strip() for name in ("INPUT", "RATE", "LIMIT")}
    for name in ("RATE", "LIMIT"):
        if given[name] and not (given[name].isdigit() and int(given[name]) > 0):
            raise ValueError(f"{name}={given[name]}: give a whole number above 0")
    if given["INPUT"] and "://" not in given["INPUT"] and not Path(given["INPUT"]).expanduser().exists():
        raise ValueError(f"INPUT={given['INPUT']}: there is no such file")
    profile = chosen.profile
    return StartOptions(
        pipeline=_pipeline(),
        input=given["INPUT"],
        rate=given["RATE"],
        limit=given["LIMIT"],
        profile=profile,
        profile_changes=chosen.changes,
        nodes=_count("NODES", profile.nodes, 0, MOST_NODES),
        standbys=_count("STANDBYS", 0, 0, MOST_NODES),
        slots=_count("SLOTS", profile.slots, 1, MOST_SLOTS),
        capacity=_count("CAPACITY", profile.capacity, 1, LARGEST_CAPACITY),
        replicas=_replicas(),
    )


def _pipeline() -> str:
    """What is deployed; empty for nothing."""
    named = os.environ.get("PIPELINE", "").strip() or MAIN_JOB
    return "" if named == "none" else named


def _replicas() -> Replicas | None:
    """`REPLICAS=`, None if it is not given. Raises `ValueError`."""
    named = replicas_named(os.environ.get("REPLICAS", ""))
    if named is not None and not _pipeline():
        raise ValueError(f"REPLICAS={named.named}: nothing is deployed with PIPELINE=none")
    return named


def _count(name: str, default: int, least: int, most: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isdigit() or not least <= int(text) <= most:
        raise ValueError(f"{name}={text}: give a whole number from {least} to {most}")
    return int(text)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if threading.current_thread() is threading.main_thread():
        raise Interrupted


def _ignore_signals() -> None:
    """Stopping has begun: a second Ctrl-C must not interrupt it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
