"""Where in a home each kind of control file is, and the formats of all that is on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anabranch.certify.certificates import CERTIFICATES_FORMAT
from anabranch.certify.verdict import VERDICT
from anabranch.change.estimates import OUTCOME
from anabranch.change.migrate.run_heartbeat import HEARTBEAT
from anabranch.change.migrate.step_progress import STEP as MIGRATION_STEP
from anabranch.change.replay.state import CONTROL, STATE
from anabranch.change.run_names import RUN
from anabranch.change.run_progress import PROGRESS
from anabranch.compute.batch.manifest import MANIFEST
from anabranch.compute.speed.status import STATUS as SPEED_STATUS
from anabranch.contracts.model.contract_registry import RECORD as CONTRACT
from anabranch.core.clocks import READING
from anabranch.core.control_file import ControlFile
from anabranch.core.home_format import HOME
from anabranch.core.part_report import REPORT as PART_REPORT
from anabranch.ingest.files import REPORT
from anabranch.ingest.http.access import CLIENT
from anabranch.ingest.landing.loaded_files import LEDGER
from anabranch.ingest.landing.status import STATUS as LANDING_STATUS
from anabranch.ingest.landing.table.schema_growth import LANDING_FORMAT
from anabranch.ingest.schema_registry import SCHEMAS
from anabranch.lake import COMMIT_FORMAT
from anabranch.lake.streams.stream_checkpoint import CHECKPOINT
from anabranch.lake.streams.writer_fencing import FENCE
from anabranch.operate.backup import FORMAT as BACKUP_FORMAT
from anabranch.operate.jobs import POSTED
from anabranch.operate.maintenance import JOURNAL
from anabranch.operate.runtime.process_registry import RECORD as PROCESS
from anabranch.serve.reader_log import LOGGED
from anabranch.views.definition_registry import RECORD as DEFINITION
from anabranch.views.upcaster_registry import STEP as CONTRACT_STEP

_RUN = r"[a-z0-9][a-z0-9-]{0,79}"
_OF_VERSION = r"[a-z0-9_]+/v\d+"


@dataclass(frozen=True)
class Place:
    """The files of one kind: ``pattern`` is a regular expression for their paths below a home. ``numbered``: each is a
    state of an object that several processes change, and only the newest one counts."""

    file: ControlFile[Any]
    pattern: str
    numbered: bool = False


PLACES: Final = (
    Place(HOME, r"control/home\.json"),
    Place(CONTRACT_STEP, r"control/contracts/.+\.v\d+-next\.json"),
    Place(CONTRACT, r"control/contracts/.+\.v\d+\.json"),
    Place(DEFINITION, r"control/views/.+\.v\d+\.json"),
    Place(VERDICT, rf"control/builds/{_OF_VERSION}/{_RUN}\.verdict\.json"),
    Place(OUTCOME, rf"control/builds/{_OF_VERSION}/{_RUN}\.outcome\.json"),
    Place(PROGRESS, rf"control/(builds|replays)/{_OF_VERSION}/{_RUN}\.progress\.json"),
    Place(MANIFEST, rf"control/builds/{_OF_VERSION}/{_RUN}\.json"),
    Place(CONTROL, rf"control/replays/{_OF_VERSION}/{_RUN}\.wish\.json"),
    Place(CONTROL, rf"control/replays/{_OF_VERSION}/{_RUN}\.wish\.\d+", numbered=True),
    Place(STATE, rf"control/replays/{_OF_VERSION}/{_RUN}\.json"),
    Place(MIGRATION_STEP, r"control/migrations/[a-z0-9_]+/\d+\.\d+", numbered=True),
    Place(HEARTBEAT, r"control/migrations/[a-z0-9_]+\.json"),
    Place(LOGGED, rf"control/(failed|behind)_reads/{_OF_VERSION}/\d+-[0-9a-f]+"),
    Place(RUN, rf"control/runs/{_RUN}\.json"),
    Place(LEDGER, r"control/loads/[a-z0-9_]+/[0-9a-f]+\.json"),
    Place(REPORT, r"control/loads/\..+\.report"),
    Place(SCHEMAS, r"control/schemas/[a-z0-9_]+\.\d+", numbered=True),
    Place(POSTED, r"control/landed_events\.json"),
    Place(JOURNAL, r"maintenance/in-hand\.json"),
    Place(READING, r"maintenance/clock\.json"),
    Place(FENCE, r"checkpoints/turns/.+\.json"),
    Place(CLIENT, r"secrets/http/.+\.json"),
    Place(SPEED_STATUS, r"run/speed-progress\.json"),
    Place(LANDING_STATUS, r"run/landing-halted\.json"),
    Place(PART_REPORT, r"run/(?:[a-z]+|load-[a-z0-9_]+)-report\.json"),
    Place(PROCESS, r"run/[a-z-]+\.json"),
    Place(CHECKPOINT, r"checkpoints/(landing|speed|replay)/.+/anabranch\.json"),
)
"""A file is of the first kind whose pattern it matches. What isn't listed has no format of ours: names of readers,
Spark's and the servers' own files, and what is made again (the index of ids, reports)."""

FOLDERS: Final = ("control", "maintenance", "run", "secrets/http", "checkpoints/turns")
"""The folders below a home that hold control files (checkpoints' own are looked for by their folders)."""

LANDING: Final = "landing table"
CERTIFICATES: Final = "certificates table"
FORMATS: Final[Mapping[str, int]] = {
    **{place.file.kind: place.file.format for place in PLACES},
    "commit": COMMIT_FORMAT,
    LANDING: LANDING_FORMAT,
    CERTIFICATES: CERTIFICATES_FORMAT,
    "backup": BACKUP_FORMAT,
}
"""The format of each kind of thing on disk that this version writes. A change that raises one adds a fixture that holds
the format before it (``tests/support/old_home``)."""


def place_of(path: str) -> Place | None:
    """The place of a file, by its path below the home; None if it is no control file."""
    return next((place for place in PLACES if re.fullmatch(place.pattern, path)), None)


def control_files(home: Path) -> Iterator[tuple[str, Place]]:
    """Yields the path below ``home`` of each control file, of numbered ones of the newest only, in order."""
    newest: dict[str, int] = {}
    for folder in FOLDERS:
        for file in sorted((home / folder).rglob("*")):
            path = file.relative_to(home).as_posix()
            if not file.is_file() or (place := place_of(path)) is None:
                continue
            if not place.numbered:
                yield path, place
                continue
            name, _, number = path.rpartition(".")
            newest[name] = max(newest.get(name, 0), int(number))
    for name, at in newest.items():
        place = place_of(f"{name}.{at}")
        assert place is not None  # noqa: S101 - it had one above
        yield f"{name}.{at}", place
