"""What ``make sweep`` has run, kept from run to run: a plugin of pytest, and the page that it writes.

``--sweep-report=docs/sweep-report.md`` writes the page, and beside it (.jsonl) each test's last result, after each
test: a sweep of hours may be killed, too. With ``--collect-only`` it says what has no result yet, with ``--sweep-more``
only what hasn't passed yet is run. A test that is skipped makes the run fail: nothing is left out unseen.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from anabranch.core.atomic_files import write_atomically

from support.checkout import commit, today

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_MOST = 300
"""Characters of why a test failed or was skipped."""
_HEAD = """# Sweep report

Written by `make sweep`: the tests that `make test` leaves out, because they take long or are more of the same. Of each
the last result is kept, with its date and its commit (`+`: the checkout had changes). `make sweep TESTS=FILE` runs a
part, `make sweep MORE=1` what hasn't passed yet ([how to run everything once](../CONTRIBUTING.md#everything-once)).

"""


@dataclass(frozen=True, slots=True)
class Result:
    """``test``: ``file::name``. ``seconds``: with its set-up and its end. ``why``: it didn't pass."""

    test: str
    result: str
    seconds: float
    date: str
    commit: str
    why: str = ""


@dataclass
class Kept:
    """The last result of each test; ``known``: every test that there is, as the last whole collection found them."""

    results: dict[str, Result] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)

    @property
    def passed(self) -> set[str]:
        return {test for test, each in self.results.items() if each.result == PASSED}

    @property
    def missing(self) -> list[str]:
        """Those without a result."""
        return sorted(self.known - self.results.keys())

    def collected(self, tests: Iterable[str], whole: bool) -> None:
        """``whole``: these are all that there are, and what has gone is forgotten."""
        found = set(tests)
        self.known = found if whole else self.known | found
        if whole:
            self.results = {test: each for test, each in self.results.items() if test in found}


def read(file: Path) -> Kept:
    """What earlier runs have left; nothing where there is no file."""
    if not file.exists():
        return Kept()
    first, *lines = [json.loads(line) for line in file.read_text().splitlines()]
    return Kept({each["test"]: Result(**each) for each in lines}, set(first["tests"]))


def write(report: Path, kept: Kept) -> None:
    """The page, and beside it one line with all tests' names, and one for each result."""
    lines = [{"tests": sorted(kept.known)}, *(asdict(each) for _, each in sorted(kept.results.items()))]
    write_atomically(report.with_suffix(".jsonl"), "".join(json.dumps(line) + "\n" for line in lines))
    write_atomically(report, page(kept))


def page(kept: Kept) -> str:
    """The whole page."""
    results = [kept.results[test] for test in sorted(kept.results)]
    counts, made = Counter(each.result for each in results), Counter((each.date, each.commit) for each in results)
    total = len(kept.known | kept.results.keys())
    text = [_HEAD, f"**{counts[PASSED]} of {total} tests have passed: {counts[FAILED]} failed, {counts[SKIPPED]} "]
    text.append(f"skipped, {len(kept.missing)} without a result.** ")
    text.append(f"Together {sum(each.seconds for each in results) / 60:.0f} minutes of tests.\n\n")
    text += [f"- {day}, commit {code}: {number} tests\n" for (day, code), number in sorted(made.items())]
    bad = [each for each in results if each.result != PASSED]
    text += ["\n## Not passed\n\n" if bad else ""]
    text += [f"- **{each.result}**: `{each.test}`: {each.why}\n" for each in bad]
    text += ["\n## Without a result\n\n" if kept.missing else "", *_counted(kept.missing)]
    by_file: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        by_file[each.test.partition("::")[0]].append(each)
    for file, own in by_file.items():
        text.append(f"\n## {file}\n\n| test | result | seconds | date | commit |\n| --- | --- | --- | --- | --- |\n")
        text += [_line(each) for each in own]
    return "".join(text)


def _counted(tests: Sequence[str]) -> Iterable[str]:
    """How many of each file."""
    for file, number in sorted(Counter(test.partition("::")[0] for test in tests).items()):
        yield f"- {file}: {number}\n"


def _line(each: Result) -> str:
    name = each.test.partition("::")[2].replace("|", "\\|")
    return f"| `{name}` | {each.result} | {each.seconds:.1f} | {each.date} | {each.commit} |\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    where = "page that gets the results of the sweep; a skipped test makes the run fail"
    parser.addoption("--sweep-report", type=Path, default=None, help=where)
    parser.addoption("--sweep-more", action="store_true", help="only what hasn't passed yet by that page")


def pytest_configure(config: pytest.Config) -> None:
    report: Path | None = config.getoption("--sweep-report")
    if report is not None:
        config.pluginmanager.register(Sweep(config, report), "sweep report")


class Sweep:
    """In a process of its own, or over workers of xdist: these leave out what has passed, the first process writes."""

    def __init__(self, config: pytest.Config, report: Path) -> None:
        self._report, self._worker = config.rootpath / report, getattr(config, "workerinput", None)
        self._kept = Kept() if self._worker else read(self._report.with_suffix(".jsonl"))
        given = config.args_source is pytest.Config.ArgsSource.ARGS
        self._whole = not given and not config.getoption("keyword")
        more = bool(config.getoption("--sweep-more"))
        # Not what the file says when a worker begins: another one may have ended tests since.
        self._done: set[str] = set(self._worker["sweep_done"]) if self._worker else self._kept.passed if more else set()
        self._parts = defaultdict[str, list[pytest.TestReport]](list)
        self._to_run, self._left_out = set[str](), set[str]()
        self._commit, self._skipped = commit(), list[str]()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["sweep_done"] = sorted(self._done)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = [item for item in items if item.nodeid in self._done]
        self._left_out = {item.nodeid for item in done}
        if self._worker is not None:
            config.workeroutput["sweep_left_out"] = sorted(self._left_out)  # type: ignore[attr-defined]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if item.nodeid not in self._done]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self._worker and (session.items or self._left_out):
            self._collected(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._to_run, self._left_out = set(ids), self._done
        self._collected(self._to_run)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Only at its end a worker says which of the tests that have passed are still there."""
        left_out = getattr(node, "workeroutput", {}).get("sweep_left_out")
        if left_out is not None:
            self._left_out = set(left_out)
            self._collected(self._to_run)

    def _collected(self, tests: Iterable[str]) -> None:
        self._kept.collected({*tests, *self._left_out}, self._whole)
        write(self._report, self._kept)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._worker:
            return
        parts = self._parts[report.nodeid]
        parts.append(report)
        if report.when in ("setup", "call"):
            return  # a worker that has died says neither, and no end comes
        del self._parts[report.nodeid]
        result = result_of(parts, self._commit)
        self._kept.results[result.test] = result
        if result.result == SKIPPED:
            self._skipped.append(f"{result.test}: {result.why}")
        write(self._report, self._kept)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._worker:
            return
        nothing_left = self._done and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if nothing_left:
            session.exitstatus = pytest.ExitCode.OK
        if self._skipped and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._worker:
            return
        if self._skipped:
            terminalreporter.section("skipped: the sweep isn't whole", red=True)
            for line in self._skipped:
                terminalreporter.line(line)
        missing, passed = self._kept.missing, self._kept.passed
        older = sum(self._kept.results[test].commit != self._commit for test in passed)
        counted = f"{len(passed)} have passed, {older} of them at another commit"
        terminalreporter.line(f"{self._report}: {counted}; {len(missing)} have no result yet")


_ORDER: Final[Mapping[str, int]] = {PASSED: 0, SKIPPED: 1, FAILED: 2}


def result_of(parts: Sequence[pytest.TestReport], code: str) -> Result:
    """Of set-up, call and end the worst."""
    worst = max(parts, key=lambda each: _ORDER[each.outcome])
    said: Any = worst.longrepr
    why = "" if worst.passed else str(said[2]) if isinstance(said, tuple) else worst.longreprtext
    last = " ".join(why.strip().splitlines()[-1:])[:_MOST]
    seconds = round(sum(each.duration for each in parts), 1)
    return Result(worst.nodeid, worst.outcome, seconds, today(), code, last)
