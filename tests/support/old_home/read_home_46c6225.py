"""What the code of commit 46c6225 reads from the home that ``make_home_46c6225.py`` makes, and the archive of both."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anabranch
import pyarrow as pa
from anabranch.change.migration import migration_of
from anabranch.events.declarations import Declarations
from anabranch.landing.quarantine import waiting
from anabranch.landing.verify import verify
from anabranch.log.admin import end_offsets
from anabranch.reconcile.certificates import newest_certificates
from anabranch.replay.standing import standing_of
from anabranch.serving.routes import route_history
from anabranch.settings import Settings
from anabranch.tables.commits import open_table
from anabranch.tables.layout import batch_table, landing_table, speed_table

COMMIT = "46c6225"
VIEWS = (("departure_delays", 1), ("departure_delays", 2), ("aircraft_now", 1), ("turns", 1), ("hour_and_weather", 1))
READERS = ("anna", "bert", "dashboard", "report", "carla", "nightly")
PUBLISHED_REPLAY, CANCELLED_REPLAY, STAGED = "replay-to-publish", "replay-to-cancel", "run-not-published"
TOPICS = ("flights", "weather")


def expected(folder: Path, settings: Settings, declared: Declarations) -> dict[str, Any]:
    """What this code reads from the home at the end; rows as texts, sorted, and the hash of them."""
    read = {f"{name} v{version}": read_rows(settings, name, version=version) for name, version in VIEWS}
    read |= {f"departure_delays for {who}": read_rows(settings, "departure_delays", reader=who) for who in READERS}
    read |= {
        f"departure_delays v{v} complete": read_rows(settings, "departure_delays", version=v, prefer="complete")
        for v in (1, 2)
    }
    tables = {f"{name} v{version} speed": table_rows(speed_table(settings, name, version)) for name, version in VIEWS}
    tables |= {f"departure_delays v{v} batch": table_rows(batch_table(settings, "departure_delays", v)) for v in (1, 2)}
    tables |= {f"landing {topic}": table_rows(landing_table(settings, topic)) for topic in TOPICS}
    topics = [declared.topic(topic) for topic in TOPICS]
    return {
        "commit": COMMIT,
        "made": f"{datetime.now(UTC):%Y-%m-%d}",
        "read": read,
        "tables": tables,
        "certificates": {
            f"{name} v{version} {day}": each.equal
            for name, version in VIEWS
            for day, each in sorted(newest_certificates(settings, name, version).items(), key=str)
        },
        "routes": [
            {"number": r.number, "shares": {str(v): s for v, s in r.shares.items()}, "by": r.changed_by, "why": r.why}
            for r in route_history(settings, "departure_delays")
        ],
        "migration": migration_of(settings, "departure_delays")[1].to_json(),
        "quarantined": {
            t.name: sorted([r.partition, r.offset, r.reason] for r in waiting(settings, t)) for t in topics
        },
        "proofs": {t.name: verify(settings, t).to_json() for t in topics},
        "replays": {
            run: asdict(standing_of(settings, view, 1, run))
            for view, run in (("aircraft_now", PUBLISHED_REPLAY), ("hour_and_weather", CANCELLED_REPLAY))
        },
        "sent": {topic: sum(end_offsets(settings, topic).values()) for topic in TOPICS},
        "plan": json.loads((folder / "plan.json").read_text()),
    }


def read_rows(settings: Settings, view: str, **given: Any) -> dict[str, Any]:
    reading = anabranch.read(view, settings=settings, **given)
    return {"version": reading.version, "cut": reading.cut.to_json(), **hashed(reading.to_arrow())}


def table_rows(uri: str) -> dict[str, Any]:
    table = open_table(uri)
    assert table is not None
    return hashed(table.to_pyarrow_table())


def hashed(rows: pa.Table) -> dict[str, Any]:
    """As ``old_home.hashed`` does: columns by name, rows as sorted JSON, so that a column that is added later can be left out."""
    names = sorted(rows.column_names)
    texts = sorted(json.dumps([row[name] for name in names], default=repr) for row in rows.to_pylist())
    return {"columns": names, "count": len(texts), "sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


LEFT_OUT = ("run", "logs", "locks", "tmp", "data_docs", "secrets", "jars", "spark", "produced")


def pack(folder: Path, file: Path) -> None:
    """Everything below FOLDER/project in one archive; paths in it are stored as @PROJECT@."""
    project = folder / "project"
    place, files = (
        str(project).encode(),
        {path: path.read_bytes() for path in sorted(project.rglob("*")) if kept(project, path)},
    )
    # Hadoop would compare a file whose path is set later with the checksum beside it.
    stale = {path.with_name(f".{path.name}.crc") for path, content in files.items() if place in content}
    with tarfile.open(file, "w:xz", preset=9) as archive:
        for path in sorted(files.keys() - stale, key=lambda each: (each.suffix, str(each))):
            content = files[path]
            if place in content:
                content.decode()  # a path in a binary file could not be set
                content = content.replace(place, b"@PROJECT@")
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size, entry.mode, entry.mtime = len(content), 0o644, int(path.stat().st_mtime)
            archive.addfile(entry, io.BytesIO(content))
    print(f"{file}: {file.stat().st_size:,} bytes")


def kept(project: Path, path: Path) -> bool:
    if not path.is_file() or path.is_symlink() or "__pycache__" in path.parts:
        return False
    inside = path.relative_to(project).parts
    if inside[0] != ".anabranch":
        return True
    broker = inside[1] == "kafka"
    return inside[1] not in LEFT_OUT and not (broker and (inside[2] != "data" or "index" in path.suffix))
