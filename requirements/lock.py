"""Write `runtime.txt`, `s3.txt`, `test.txt` and `carried.txt`: every distribution the `.in` files need,
pinned to what is installed, with the hashes of its files.

Run it with the Python of an environment in which the `.in` files are installed and the tests pass:
the lock is then what was tested. The hashes come from the index through `uv`, which has to be on the path. No
registry address is written, so any index or mirror with the same files serves.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent


def requirements_of(path: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def closure(wanted: Iterable[Requirement]) -> dict[str, str]:
    """Name and installed version of everything `wanted` needs here. Exits when something is not
    installed or does not satisfy what asks for it."""
    pins: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(requirement, "the .in file") for requirement in wanted]
    while waiting:
        requirement, asker = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"{requirement} (needed by {asker}) is not installed")
        if not requirement.specifier.contains(distribution.version, prereleases=True):
            sys.exit(f"{name} {distribution.version} is installed, but {asker} needs {requirement}")
        pins[name] = distribution.version
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for text in distribution.requires or ():
                further = Requirement(text)
                if further.marker is None or further.marker.evaluate({"extra": extra}):
                    waiting.append((further, name))
    return pins


def write(path: Path, pins: dict[str, str], heading: str) -> None:
    lines = [f"# {heading}", "# Written by requirements/lock.py; edit the .in file instead."]
    wanted = "".join(f"{name}=={pins[name]}\n" for name in sorted(pins))
    path.write_text("\n".join([*lines, with_hashes(wanted)]))


def with_hashes(pins: str) -> str:
    """The same requirements with the hashes of every file of these versions, for all platforms."""
    uv = shutil.which("uv")
    if uv is None:
        sys.exit("uv is not on the path: pip install uv")
    options = ["--generate-hashes", "--no-deps", "--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(
        [uv, "pip", "compile", *options, "-"], input=pins, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"no hashes: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    runtime = closure(requirements_of(HERE / "runtime.in"))
    tests = closure(requirements_of(HERE / "test.in"))
    s3 = closure(requirements_of(HERE / "s3.in"))
    write(HERE / "runtime.txt", runtime, "The product's locked dependencies (Python 3.11).")
    further = {name: version for name, version in s3.items() if name not in runtime}
    write(HERE / "s3.txt", further, "What checkpoints in S3 need besides runtime.txt.")
    only = {name: version for name, version in tests.items() if name not in runtime}
    write(HERE / "test.txt", only, "What tests need besides runtime.txt.")
    carried = {r.name: str(r.specifier).removeprefix("==") for r in requirements_of(HERE / "carried.in")}
    write(HERE / "carried.txt", carried, "Wheels from which only the programs in them are used.")
    print(f"{len(runtime)} for the product, {len(only)} more for tests")


if __name__ == "__main__":
    main()
