"""What a home holds, against what the code that made it had read."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

import anabranch
from anabranch.certify.certificates import newest_certificates
from anabranch.change.replay.state import read_state
from anabranch.core.settings import Settings
from anabranch.ingest.landing.audit.quarantine import list_quarantined
from anabranch.lake import open_table
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.serve.routes import route_history
from anabranch.views.project import Project

from support.old_home.unpack import expected, hashed

TOPICS: Final = ("flights", "weather")
VIEWS: Final = (
    ("departure_delays", 1), ("departure_delays", 2), ("aircraft_now", 1), ("turns", 1), ("hour_and_weather", 1),
)  # fmt: skip


def assert_as_before(settings: Settings) -> None:
    """Every read, table, certificate and decision is what the old code had found."""
    before = expected(settings)
    for name, said in before["read"].items():
        view, _, how = name.partition(" ")
        given: dict[str, Any] = {}
        if how.startswith("for "):
            given["reader"] = how.removeprefix("for ")
        else:
            version, _, prefer = how.partition(" ")
            given |= {"version": int(version[1:]), **({"prefer": prefer} if prefer else {})}
        reading = anabranch.read(view, settings=settings, **given)
        rows = hashed(reading.to_arrow(), said["columns"])
        assert {"version": reading.version, "cut": reading.cut.to_json(), **rows} == said, name
    for name, said in before["tables"].items():
        kind, _, rest = name.partition(" ")
        uri = landing_table(settings, rest) if kind == "landing" else _half(settings, kind, rest)
        table = open_table(uri)
        assert table is not None
        assert hashed(table.to_pyarrow_table(), said["columns"]) == said, name
    found = {
        f"{v} v{n} {day}": c.equal
        for v, n in VIEWS
        for day, c in newest_certificates(VersionRef(settings, v, n)).items()
    }
    assert found == before["certificates"]
    routes = route_history(settings, "departure_delays")
    assert [
        {"number": r.number, "shares": {str(v): s for v, s in r.shares.items()}, "by": r.changed_by, "why": r.why}
        for r in routes
    ] == before["routes"]
    topics = Project(settings).declarations().topics
    waiting = {
        t: sorted([r.partition, r.offset, r.reason] for r in list_quarantined(settings, topics[t])) for t in TOPICS
    }
    assert waiting == before["quarantined"]
    for run, state in before["replays"].items():
        known = read_state(VersionRef(settings, state["view"], 1), run)
        assert known is not None
        assert (known.phase, known.done, known.total) == (state["phase"], state["done"], state["total"])


def _half(settings: Settings, view: str, rest: str) -> str:
    version, _, half = rest.partition(" ")
    ref = VersionRef(settings, view, int(version[1:]))
    return ref.speed_table if half == "speed" else ref.batch_table


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
