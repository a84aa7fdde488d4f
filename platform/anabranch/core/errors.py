"""The one tree of errors, split by what the reader can do about them.

::

    AnabranchError
    ├── TryAgain        nothing is wrong with the call; something was away or busy
    ├── BadInput        a parameter, an event or a setting has to be mended
    ├── Conflict        two truths meet; a person decides which one holds
    ├── BrokenState     what is on disk is not what it should be; it has to be restored
    └── BadDefinition   the code of a view, a contract or a topic has to be mended

Each error has a stable ``code`` and ``fields`` (tests and programs read those) and a text for people:
what failed with the values, what state things are in, the next command.
"""

from __future__ import annotations

import re
from typing import Any

_RAISED = re.compile(r"([a-z_]\w*\.)*(\w*(Error|Exception)|TryAgain|Conflict|BadInput|BrokenState|BadDefinition):")

_CALLING = "An error occurred while calling "
_SPARK = re.compile(r"\[[A-Z][A-Z_.]+\]")


class AnabranchError(Exception):
    """An error that the platform raises on purpose.

    ``code`` is stable and unique, like ``"BROKER_UNREACHABLE"``. ``state`` says what things are like now
    (what was written, what wasn't), ``next_step`` what to do or type.
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
    """The line of an error's text that says it: of a Python traceback the last one, of a Java call its causes, else the
    first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith(_CALLING):
        return _caused(lines)
    raised = [line for line in lines if _RAISED.match(line)]
    return raised[-1] if "Traceback" in str(error) and raised else (lines or [type(error).__name__])[0]


def _caused(lines: list[str]) -> str:
    """Spark's own word for what happened, where a cause has one, and the last cause: py4j only says what it called."""
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith(("Caused by:", ": "))]
    named = [cause for cause in causes if _SPARK.search(cause)]
    told = dict.fromkeys(cause.removeprefix(": ") for cause in [*named[-1:], *causes[-1:]])
    return "; ".join(told) or lines[0]


class TryAgain(AnabranchError):
    """Nothing is wrong with the call; something was away or busy."""


EXIT_NEEDS_FIX = 65
"""The exit code of a program that would end in the same way again (as in sysexits.h); a crash has another one."""


def may_be_repeated(error: AnabranchError) -> bool:
    """Whether the same call can end otherwise with nothing mended in between."""
    return isinstance(error, TryAgain) or error.code == "TABLE_MOVED"


def exit_code(error: AnabranchError) -> int:
    """Of a program that ends with ``error``."""
    return 1 if may_be_repeated(error) else EXIT_NEEDS_FIX


class BadInput(AnabranchError):
    """A parameter, an event or a setting has to be mended."""


class Conflict(AnabranchError):
    """Two truths meet; a person decides which one holds."""


class BrokenState(AnabranchError):
    """What is on disk is not what it should be; it has to be restored."""


class BadDefinition(AnabranchError):
    """The code of a view, a contract or a topic has to be mended."""
