"""Delta's version checksum: what a streaming reader has to know of a version, in one small file beside its commit.

delta-rs writes none. Without it Spark reads every commit since the last checkpoint, in a job of its own, each time it
looks at a new version: 140-250 ms of each micro-batch that reads the table, against 10 ms with it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from anabranch.tables.staging import StagedFile


def announce(table: DeltaTable, files: Sequence[StagedFile]) -> Path:
    """Write the checksum of the version that an append of ``files`` is about to make; returns its path.

    It is written before the commit: a reader that polls every 10 ms would mostly look before it otherwise. When the
    commit then fails, ``withdraw`` it. Without a commit of that version nobody reads it.
    """
    count, size = _held(table)
    metadata, protocol = table.metadata(), table.protocol()
    content = {
        "tableSizeBytes": size + sum(file.size for file in files),
        "numFiles": count + len(files),
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": {
            "id": str(metadata.id),
            "name": metadata.name,
            "description": metadata.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": table.schema().to_json(),
            "partitionColumns": metadata.partition_columns,
            "configuration": metadata.configuration,
            "createdTime": metadata.created_time,
        },
        "protocol": _protocol(protocol),
    }
    path = _path(table, table.version() + 1)
    path.write_text(json.dumps(content))
    return path


def withdraw(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def _held(table: DeltaTable) -> tuple[int, int]:
    """Files and bytes of the version that ``table`` is at: from its checksum, else counted."""
    try:
        before = json.loads(_path(table, table.version()).read_text())
        return int(before["numFiles"]), int(before["tableSizeBytes"])
    except (OSError, ValueError, KeyError):
        adds = pa.table(table.get_add_actions())
        return adds.num_rows, sum(adds["size_bytes"].to_pylist())


def _protocol(protocol: Any) -> dict[str, Any]:
    found = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    return {**found, **{name: value for name, value in features.items() if value}}


def _path(table: DeltaTable, version: int) -> Path:
    return Path(table.table_uri.removeprefix("file://")) / "_delta_log" / f"{version:020d}.crc"
