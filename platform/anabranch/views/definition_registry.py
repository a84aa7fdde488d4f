"""The registered definition of each view version, written once: ``control/views/<name>.v<N>.json`` below the home."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anabranch.core.control_file import ControlFile
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.views._fingerprint import definition_text
from anabranch.views.function_source import read
from anabranch.views.model.definition import View

_MAX_DIFF_LINES = 12


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """What is registered of a view version. ``contracts``: the contract versions that it was checked for, by event
    type; None in a record from before a contract could have a second version."""

    name: str
    version: int
    fingerprint: str
    definition: str
    origin: str = ""
    contracts: Mapping[str, int] | None = field(default=None, hash=False)


RECORD: Final = ControlFile("definition of a view", ViewRecord)


def record_path(ref: VersionRef) -> Path:
    return ref.settings.home / "control" / "views" / f"{ref.name}.v{ref.version}.json"


def is_registered(settings: Settings, view: View, contract_versions: Mapping[str, int] | None = None) -> bool:
    """Whether this definition is registered and was checked for these contract versions (by event type; None: any).

    Raises Conflict DEFINITION_CHANGED when another definition is registered under this version.
    """
    known = RECORD.read(record_path(VersionRef(settings, view.name, view.version)))
    if known is None:
        return False
    if known.fingerprint == view.fingerprint:
        checked = dict.fromkeys(view.events, 1) if known.contracts is None else dict(known.contracts)
        return contract_versions is None or checked == contract_versions
    changed = list(difflib.unified_diff(known.definition.splitlines(), _text(view).splitlines(), n=0, lineterm=""))[3:]
    raise Conflict(
        "DEFINITION_CHANGED",
        f"{view.origin}: {view.name} v{view.version} differs from the definition registered under that version"
        + "".join(f"\n    {line}" for line in changed[:_MAX_DIFF_LINES]),
        state=f"the data of v{view.version} is unchanged, as the registered definition made it; nothing was written",
        next_step=f"undo the change, or declare it as version={view.version + 1}",
        view=view.name,
        version=view.version,
        registered=known.fingerprint,
        fingerprint=view.fingerprint,
        file=view.origin.file,
        definition=view.origin.line,
    )


def write_definition(settings: Settings, view: View, contract_versions: Mapping[str, int] | None = None) -> None:
    """Persist the definition under its version, with the contract versions that it was checked for.

    Atomic: a crash leaves all of it or nothing. Of two concurrent writers the first wins; the second one's definition
    is compared with it (Conflict DEFINITION_CHANGED).
    """
    target = record_path(VersionRef(settings, view.name, view.version))
    contracts = dict(contract_versions or dict.fromkeys(view.events, 1))
    record = ViewRecord(view.name, view.version, view.fingerprint, _text(view), str(view.origin), contracts)
    if is_registered(settings, view):  # same definition, checked for a newer contract
        RECORD.write(target, record)
    elif not RECORD.create(target, record):
        is_registered(settings, view)


def definition_lines(view: View) -> list[str]:
    """The lines of the registered text, to show how two definitions differ."""
    return _text(view).splitlines()


def _text(view: View) -> str:
    """The declaration, one parameter per line, and then the code."""
    declared = (
        f"events={list(view.events)}\nkey={list(view.key)}\npartition_by={view.partition_by!r}\n"
        f"lookback={str(view.lookback)!r}\nlookahead={str(view.lookahead)!r}\nrefresh={view.refresh!r}\ncloses={view.closes!r}\n"
    ) + (f"tables={list(view.tables)}\n" if view.tables else "")
    return declared + definition_text(read(view.function))
