"""What pytest processes reported, and which failures a second run takes back.

A test on real processes that failed is run once more, alone, after everything else. If it passes then, the
run passes, and the closing lines name the test as flaky with the log of the failure: a flaky test is a defect
whose cause has to be found, but no reason to repeat everything.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REAL_PROCESSES = ("tests/integration/", "tests/browser/")
OPTIONS = ("-o", "junit_family=xunit1", "-o", "junit_logging=all", "-o", "junit_log_passing_tests=false")
"""xunit1 is the format that names the file of a test; the output of tests that passed is left out."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`test` is pytest's id of it, empty for what cannot be run again by name (a file that does not load);
    `log` is the traceback with what the test printed."""

    test: str
    log: str

    @property
    def on_real_processes(self) -> bool:
        return self.test.startswith(REAL_PROCESSES)


@dataclass(frozen=True, slots=True)
class Report:
    """`code` is the exit code of the pytest process."""

    title: str
    code: int
    passed: int = 0
    skipped: int = 0
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failed` names the pytest processes that failed for good, `flaky` what passed the second time."""

    passed: int
    skipped: int
    failures: tuple[Failure, ...]
    flaky: tuple[Failure, ...]
    failed: tuple[str, ...]

    def lines(self, seconds: float) -> list[str]:
        """The closing lines; the last one counts, as pytest's own does."""
        said: list[str] = []
        for failure in self.flaky:
            said.append(f"flaky: {failure.test}")
            said += [f"    {line}" for line in failure.log.splitlines()]
        counts = [f"{len(self.failures)} failed"] if self.failures or self.failed else []
        counts.append(f"{self.passed} passed")
        counts += [f"{self.skipped} skipped"] if self.skipped else []
        counts += [f"{len(self.flaky)} flaky"] if self.flaky else []
        return [*said, f"==== {', '.join(counts)} in {seconds:.2f}s ===="]


def report_read(path: Path, title: str, code: int) -> Report:
    """The report that `pytest --junit-xml=path` left; an empty one where it ended before it wrote any."""
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))  # noqa: S314 - our own pytest wrote it
    except (OSError, ElementTree.ParseError):
        return Report(title, code)
    # A test that passed and whose fixtures failed to end has two cases.
    failures: dict[str, Failure] = {}
    passed, skipped = set(), set()
    for number, case in enumerate(cases):
        test = _id(case)
        found = [one for one in case if one.tag in ("failure", "error")]
        if found:
            key = test or f"case {number}"
            before = failures[key].log if key in failures else ""
            failures[key] = Failure(test, "\n".join(filter(None, [before, *_logs(case)])))
        elif case.find("skipped") is not None:
            skipped.add(test)
        else:
            passed.add(test)
    kept = passed - failures.keys()
    return Report(title, code, len(kept), len(skipped), tuple(failures.values()))


def judge(reports: Sequence[Report], again: Callable[[str], Report]) -> Verdict:
    """Decide, running tests on real processes that failed once more with `again`, one at a time.

    The first that fails again ends that: the run has failed, and the others would only take time.
    """
    flaky: list[Failure] = []
    lasting: list[Failure] = []
    failed: list[str] = []
    hopeless = False
    for report in reports:
        if report.code == 0:
            continue
        left = [failure for failure in report.failures if not failure.on_real_processes]
        for failure in report.failures:
            if not failure.on_real_processes:
                continue
            second = None if hopeless else again(failure.test)
            if second is not None and second.code == 0 and second.passed:
                flaky.append(failure)
            else:
                hopeless = True
                left.append(failure)
        lasting += left
        # Exit code 1: tests failed. Any other says that something else went wrong, too.
        if left or report.code != 1 or not report.failures:
            failed.append(report.title)
    return Verdict(
        passed=sum(report.passed for report in reports) + len(flaky),
        skipped=sum(report.skipped for report in reports),
        failures=tuple(lasting),
        flaky=tuple(flaky),
        failed=tuple(failed),
    )


def _id(case: ElementTree.Element) -> str:
    file, name = case.get("file"), case.get("name", "")
    if file is None:
        return ""
    module = file.removesuffix(".py").replace("/", ".")
    classes = [one for one in case.get("classname", "").removeprefix(module).split(".") if one]
    return "::".join([file, *classes, name])


def _logs(case: ElementTree.Element) -> list[str]:
    wanted = ("failure", "error", "system-out", "system-err")
    return [one.text.strip("\n") for one in case if one.tag in wanted and one.text]
