"""`python -m supervision.audit`: whether vulnerabilities are known of the locked requirements.

Asks the OSV database (https://osv.dev) for each distribution of `requirements/*.txt` by name and version; of
what else a wheel carries it knows nothing. Fails for a known vulnerability, and for a requirement without one
version or without hashes. If the database does not answer, nothing was audited: the exit code is `SKIPPED`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from host.environment import ROOT
from supervision.checks import SKIPPED, say

SERVICE = "https://api.osv.dev"
REQUIREMENTS = ROOT / "requirements"
SECONDS = 30.0
HASH = "--hash=sha256:"


class UnlockedError(Exception):
    """A requirement does not say which files may be installed; the message names it."""


class NotAuditedError(Exception):
    """The database did not answer, or not as it is documented; the message says how."""


def locked(text: str) -> dict[str, str]:
    """Name -> version of what a file of requirements locks. Raises `UnlockedError`."""
    found: dict[str, str] = {}
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        pinned, *options = line.split()
        try:
            requirement = Requirement(pinned)
        except InvalidRequirement:
            raise UnlockedError(f"{line.strip()}: no requirement") from None
        versions = [one.version for one in requirement.specifier if one.operator == "=="]
        if len(versions) != 1 or len(requirement.specifier) != 1:
            raise UnlockedError(f"{requirement}: not one version")
        if not options or not all(option.startswith(HASH) for option in options):
            raise UnlockedError(f"{requirement}: without hashes of its files")
        found[requirement.name] = versions[0]
    return found


def known(pins: dict[str, str], service: str = SERVICE) -> dict[str, list[str]]:
    """Name -> identifiers of the vulnerabilities that are known of this version, if there are any. Raises
    `NotAuditedError`."""
    found: dict[str, list[str]] = {}
    waiting: list[dict[str, Any]] = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
        for name, version in sorted(pins.items())
    ]
    while waiting:
        answer = _ask(f"{service}/v1/querybatch", {"queries": waiting})
        try:
            results: list[dict[str, Any]] = answer["results"]
            further: list[dict[str, Any]] = []
            for query, result in zip(waiting, results, strict=True):
                name = query["package"]["name"]
                if vulnerabilities := [str(one["id"]) for one in result.get("vulns", [])]:
                    found.setdefault(name, []).extend(vulnerabilities)
                if token := result.get("next_page_token"):
                    further.append({**query, "page_token": token})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotAuditedError(f"{service} answers otherwise than documented: {error!r}") from error
        waiting = further
    return found


def _ask(url: str, question: dict[str, Any]) -> Any:
    request = urllib.request.Request(  # noqa: S310 - https, or a test's address
        url, data=json.dumps(question).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return json.load(answer)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotAuditedError(f"{url} does not answer: {error}") from error


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m supervision.audit", description=__doc__)
    parser.add_argument("--service", default=SERVICE, help=f"default {SERVICE}")
    parser.add_argument("files", nargs="*", type=Path, help="locked requirements; default requirements/*.txt")
    options = parser.parse_args(argv)
    pins: dict[str, str] = {}
    try:
        for path in options.files or sorted(REQUIREMENTS.glob("*.txt")):
            pins |= locked(path.read_text(encoding="utf-8"))
        vulnerable = known(pins, options.service)
    except UnlockedError as error:
        say(f"not locked: {error}")
        return 1
    except NotAuditedError as error:
        say(f"skipped, nothing was audited: {error}")
        return SKIPPED
    for name, identifiers in vulnerable.items():
        listed = ", ".join(f"https://osv.dev/vulnerability/{one}" for one in identifiers)
        say(f"{name} {pins[name]}: {listed}")
    say(f"{len(pins)} requirements, {len(vulnerable)} with known vulnerabilities")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
