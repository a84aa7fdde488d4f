"""Whoever changes what is on disk raises its format, and adds a home that holds the format before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa
import pytest
from anabranch.certify.certificates import SCHEMA
from anabranch.certify.certificates import table_format as certificates_format
from anabranch.ingest.landing.table.schema import ADDED, FIXED, PROPERTIES
from anabranch.lake import CommitMetadata
from anabranch.operate.backup._manifest import Manifest
from anabranch.operate.upgrade._places import CERTIFICATES, FORMATS, LANDING, PLACES, place_of
from anabranch.serve.routes import COLUMNS
from support.old_home.unpack import HOME, archives, files_in

pytestmark = pytest.mark.unit

SHAPES: Final = Path(__file__).with_name("shapes.json")
WITHOUT_A_HOME: Final = {
    ("progress of a migration's step", 1): "written only by commits between two fixtures; test_control_file has it",
}
"""Older formats that no fixture holds, and why."""
_ARCHIVES = archives()


def stored_formats(archive: Path) -> Iterator[tuple[str, int]]:
    """Each kind of thing in an archive, with its format."""
    columns, properties = dict[str, set[str]](), dict[str, dict[str, str]]()
    for name, content in files_in(archive):
        path = name.removeprefix(HOME)
        if "_delta_log/" in path and path.endswith(".json"):
            table = path.partition("/_delta_log")[0]
            for line in content.decode().splitlines():
                action = json.loads(line)
                if "metaData" in action:
                    names = {field["name"] for field in json.loads(action["metaData"]["schemaString"])["fields"]}
                    columns[table], properties[table] = names, action["metaData"]["configuration"]
                if note := action.get("commitInfo", {}).get("userMetadata"):
                    yield "commit", int(json.loads(note).get("anabranch", 0))
        elif name.startswith(HOME) and (place := place_of(path)) is not None:
            yield place.file.kind, int(json.loads(content).get("format", 1))
    for table, names in columns.items():
        if table.startswith("lake/landing/"):
            newest = names >= ADDED.keys() and PROPERTIES.items() <= properties[table].items()
            yield LANDING, FORMATS[LANDING] if newest else 1
        elif table == "lake/certificates":
            yield CERTIFICATES, certificates_format(pa.schema([(name, pa.string()) for name in names]))


@pytest.fixture(scope="module")
def held() -> set[tuple[str, int]]:
    return {found for archive in _ARCHIVES for found in stored_formats(archive)}


def test_every_older_format_is_in_a_home_that_was_written_in_it(held: set[tuple[str, int]]) -> None:
    older = {(kind, number) for kind, newest in FORMATS.items() for number in range(1, newest)}
    missing = older - held - WITHOUT_A_HOME.keys()
    assert not missing, (
        f"no fixture holds {sorted(missing)}: let a copy of tests/support/old_home/make_home_*.py run by the code of "
        "the last commit before the change, and add its archive (CONTRIBUTING.md)"
    )
    assert WITHOUT_A_HOME.keys() <= older, "what is covered now is struck off"


def test_no_home_holds_a_format_that_is_unknown(held: set[tuple[str, int]]) -> None:
    assert {(kind, number) for kind, number in held if not 1 <= number <= FORMATS[kind]} == set()


@pytest.mark.parametrize("archive", _ARCHIVES, ids=lambda path: path.name)
def test_an_old_home_is_small(archive: Path) -> None:
    assert archive.stat().st_size <= 1_000_000


def shapes() -> dict[str, list[Any]]:
    """Of each kind: its format, and a digest of what it stores: names, types, and which have a default."""
    stored = {place.file.kind: _shape(place.file.type_) for place in PLACES}
    stored |= {LANDING: _columns(FIXED), CERTIFICATES: _columns(SCHEMA), "routes table": _columns(COLUMNS)}
    stored |= {"commit": _shape(CommitMetadata), "backup": _shape(Manifest)}
    digests = {kind: hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:16] for kind, shape in stored.items()}
    return {kind: [FORMATS.get(kind, 1), digest] for kind, digest in sorted(digests.items())}


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema}


def _shape(kind: Any) -> Any:
    """Of a dataclass its fields, of another type its name; and of both what is inside of it."""
    inside = [_shape(each) for each in get_args(kind)]
    if not is_dataclass(kind):
        return [getattr(kind, "__name__", str(kind)), *inside]
    hints = get_type_hints(kind)
    return {
        f.name: [_shape(hints[f.name]), f.default is MISSING and f.default_factory is MISSING] for f in fields(kind)
    }


def test_nothing_on_disk_changes_unnoticed() -> None:
    """If this fails, what is stored has another shape. Would an older version misunderstand it, or does an older file
    need more than a default? Then raise its format with an upgrade, add a fixture, and raise the package's version.
    If not (a field more, with a default), the format stays. In both cases store the new shapes."""
    recorded = json.loads(SHAPES.read_text())
    now = shapes()
    changed = {
        kind: (recorded.get(kind), now.get(kind))
        for kind in recorded.keys() | now
        if recorded.get(kind) != now.get(kind)
    }
    assert not changed, f"see CONTRIBUTING.md, formats; {SHAPES.name} would be:\n{json.dumps(now, indent=1)}"
