"""The tree of errors, split by what the reader can do about them.

::

    AnabranchError
    ├── TryAgain        nothing is wrong with the call; something was unavailable or busy
    ├── BadInput        a parameter, an event or a setting must be corrected
    ├── Conflict        two states contradict each other; a person decides which one is right
    ├── BrokenState     data on disk is damaged or inconsistent and must be restored
    └── BadDefinition   the code of a view, a contract or a topic must be corrected

Each error has a stable ``code`` and ``fields`` (for tests and programs) and a text for people:
what failed with the values, what state things are in, the next command.
"""

from __future__ import annotations

import errno
import re
from typing import Any, Final

_RAISED = re.compile(r"([a-z_]\w*\.)*(\w*(Error|Exception)|TryAgain|Conflict|BadInput|BrokenState|BadDefinition):")

_CALLING = "An error occurred while calling "
_CALL_SITE = re.compile(r'^== DataFrame ==\s+"[^"]*" was called from\s+(\S.*:\d+)$', re.MULTILINE)
_SPARK = re.compile(r"\[[A-Z][A-Z_.]+\]")
_OF_DISKS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


class AnabranchError(Exception):
    """An error that the platform raises on purpose.

    ``code`` is stable and unique, like ``"BROKER_UNREACHABLE"``. ``state`` says what was written and what wasn't,
    ``next_step`` what to do or type.
    """

    def __init__(self, code: str, what: str, *, state: str = "", next_step: str = "", **fields: Any) -> None:
        self.code = code
        self.what = what
        self.state = state
        self.next_step = next_step
        self.fields = fields
        super().__init__(what)

    def __str__(self) -> str:
        lines = [f"{self.what} [{self.code}]"]
        if self.state:
            lines.append(f"  state: {self.state}")
        if self.next_step:
            lines.append(f"  next:  {self.next_step}")
        return "\n".join(lines)


def root_cause(error: BaseException | None) -> str:
    """The most informative line of an error's text: the last error of a Python traceback, the causes of a Java call,
    otherwise the first line; and the line of the call that made the failing expression, if Spark knows it
    (``engine.call_sites``). Behind an error of the disk (``disk_error``) that one comes first."""
    site, disk = _CALL_SITE.search(str(error)), disk_error(error)
    if disk is not None and disk is not error:
        return f"{disk} (then: {_informative(error)})"
    return f"{_informative(error)} (called at {_shortened(site[1])})" if site else _informative(error)


def disk_error(error: BaseException | None) -> OSError | None:
    """The error of a disk that is full, read-only or broken: ``error`` itself, or the one that was handled when it came
    up. A library that cleans up after a failed write may fail with words of its own: Arrow's Parquet writer says that
    "file metadata is only available after writer close"."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OF_DISKS:
            return error
        told = error.__cause__ is not None or error.__suppress_context__
        error = None if told else error.__context__
    return None


def _shortened(place: str) -> str:
    """``file:line``, from the project's folder on if it lies in there."""
    from anabranch.core.project_folder import current_project

    project = current_project()
    return place.removeprefix(f"{project}/") if project else place


def _informative(error: BaseException | None) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith(_CALLING):
        return _caused(lines)
    raised = [line for line in lines if _RAISED.match(line)]
    return raised[-1] if "Traceback" in str(error) and raised else (lines or [type(error).__name__])[0]


def _caused(lines: list[str]) -> str:
    """Spark's own error line, if there is one, and the last cause: py4j's first line only names what it called."""
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith(("Caused by:", ": "))]
    named = [cause for cause in causes if _SPARK.search(cause)]
    parts = dict.fromkeys(cause.removeprefix(": ") for cause in [*named[-1:], *causes[-1:]])
    return "; ".join(parts) or lines[0]


class TryAgain(AnabranchError):
    """Nothing is wrong with the call; something was unavailable or busy."""


EXIT_NEEDS_FIX = 65
"""The exit code of a program that would fail again in the same way (as in sysexits.h); a crash has another one."""


def may_be_repeated(error: AnabranchError) -> bool:
    """Whether the same call may succeed when repeated, without any fix."""
    return isinstance(error, TryAgain) or error.code == "TABLE_MOVED"


def exit_code(error: AnabranchError) -> int:
    """The exit code of a program that ends with ``error``."""
    return 1 if may_be_repeated(error) else EXIT_NEEDS_FIX


class BadInput(AnabranchError):
    """A parameter, an event or a setting must be corrected."""


class Conflict(AnabranchError):
    """Two states contradict each other; a person decides which one is right."""


class BrokenState(AnabranchError):
    """Data on disk is damaged or inconsistent and must be restored."""


class BadDefinition(AnabranchError):
    """The code of a view, a contract or a topic must be corrected."""
