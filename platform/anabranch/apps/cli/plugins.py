"""What other distributions add to the command line: commands, and samples to begin with.

In: the entry points of all that is installed. Out: commands of the app, and a ``Sample`` by its name. This package
holds no sample and imports none: anabranch-samples, the flights of this repository, comes in through these groups only.

- ``anabranch.commands``: functions ``register(app)``, each called once when the command line starts, after our own
  commands have been registered. It adds commands to ``app``, or to a group of ours
  (``produce_commands.produce``). Its module is loaded at each start, so it imports heavy packages in its commands only.
  One that fails is reported on stderr and takes no other command away.
- ``anabranch.samples``: a ``Sample`` each, by the name that ``anabranch init --sample NAME`` takes. They are loaded by
  the commands that need one: ``init --sample`` and ``doctor --sent``.

Not promised: an order among distributions; what happens if two of them use one name.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

import typer

from anabranch.apps.cli.produce_commands import produce
from anabranch.core.errors import AnabranchError, BadInput, BrokenState, root_cause

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.operate.doctor import Check

COMMANDS: Final = "anabranch.commands"
SAMPLES: Final = "anabranch.samples"
FLIGHTS: Final = "flights"
_OURS: Final = "anabranch-samples"
"""The distribution of the sample ``flights``, with ``anabranch demo`` and ``anabranch produce flights``."""
INSTALL: Final = (
    "in a checkout, make setup; elsewhere install its wheel (pip wheel platform/samples --no-deps builds it)"
)


class Sample(Protocol):
    """A sample domain: contracts and views of a project, events for it, and what its views must show of them.

    Reading its attributes writes nothing and starts nothing.
    """

    @property
    def distribution(self) -> str:
        """Which distribution gives it; a project that begins with this sample depends on it."""
        ...

    @property
    def folder(self) -> Path:
        """A folder that has ``contracts`` and ``views``, as ``spark_jobs`` of a project. It is copied, not changed."""
        ...

    @property
    def first_events(self) -> str:
        """The command that sends the first events, for the project's README."""
        ...

    @property
    def first_view(self) -> str:
        """The view that the README reprocesses and reads."""
        ...

    @property
    def first_days(self) -> str:
        """The days of the first events that it reprocesses, as options: ``--from DAY --to DAY``."""
        ...

    def check(self, sent: Path) -> Check:
        """A check of the doctor: what readers get of the sample's views against ``sent``, the file of all that its
        producer has sent, computed without the platform. Views that aren't the sample's are left out."""
        ...


def register_commands(app: typer.Typer) -> None:
    """Adds the commands of other distributions. Of anabranch-samples' commands, those that aren't there become hidden
    ones that say why."""
    failed: dict[str, AnabranchError] = {}
    loaded = set[str]()
    for point in entry_points(group=COMMANDS):
        try:
            point.load()(app)
            loaded.add(point.name)
        except Exception as error:  # a fault of another distribution
            failed[point.name] = _broken("command", point, error)
            typer.echo(f"the command {point.name} of {_from(point)} can't be loaded: {root_cause(error)}", err=True)
    for group, name, whole in ((app, "demo", "anabranch demo"), (produce, FLIGHTS, "anabranch produce flights")):
        if name not in loaded and name not in command_names(group):
            what = f"{whole} is a command of {_OURS}, which isn't installed"
            missing = failed.get(name) or _not_installed(what, "nothing was started")
            anything: Any = {"allow_extra_args": True, "ignore_unknown_options": True}
            group.command(name, hidden=True, context_settings=anything)(_stand_in(missing))


def command_names(group: typer.Typer) -> set[str]:
    """As Typer names them."""
    return {
        command.name or command.callback.__name__.replace("_", "-")
        for command in group.registered_commands
        if command.callback is not None
    }


def _stand_in(missing: AnabranchError) -> Any:
    def stand_in() -> None:
        raise missing

    stand_in.__doc__ = f"A command of {_OURS}."
    return stand_in


def sample_named(name: str) -> Sample:
    """The installed sample of this name. Raises BadInput SAMPLES_NOT_INSTALLED or SAMPLE_UNKNOWN; BrokenState
    PLUGIN_BROKEN."""
    known = {point.name: point for point in entry_points(group=SAMPLES)}
    if name in known:
        return _sample(known[name])
    if not known or name == FLIGHTS:
        here = f"the sample {name!r} isn't installed" if name == FLIGHTS else "no sample is installed"
        raise _not_installed(f"{here}: anabranch itself holds none", "nothing was written")
    raise BadInput(
        "SAMPLE_UNKNOWN",
        f"there is no sample {name!r}",
        state="nothing was written",
        next_step=f"choose from {', '.join(sorted(known))}",
    )


def sample_checks(sent: Path) -> list[Check]:
    """The check of each installed sample of ``sent``. Raises BadInput SAMPLES_NOT_INSTALLED; BrokenState
    PLUGIN_BROKEN."""
    points = entry_points(group=SAMPLES)
    if not points:
        raise _not_installed(
            "--sent compares views of a sample, and no sample is installed: anabranch itself holds none",
            "nothing was checked",
        )
    return [_sample(point).check(sent) for point in points]


def _sample(point: EntryPoint) -> Sample:
    try:
        found: Sample = point.load()
    except Exception as error:  # a fault of another distribution
        raise _broken("sample", point, error) from error
    return found


def _broken(what: str, point: EntryPoint, error: Exception) -> BrokenState:
    return BrokenState(
        "PLUGIN_BROKEN",
        f"the {what} {point.name} of {_from(point)} can't be loaded: {root_cause(error)}",
        state="nothing was started",
        next_step=f"install {_from(point)} of the version that belongs to this anabranch; for {_OURS}, the same one",
    )


def _not_installed(what: str, state: str) -> BadInput:
    return BadInput("SAMPLES_NOT_INSTALLED", what, state=state, next_step=INSTALL, distribution=_OURS)


def _from(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value
