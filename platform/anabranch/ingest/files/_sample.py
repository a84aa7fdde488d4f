"""Rows of a file with columns as JSON lines, to infer a contract from: no contract types its cells yet."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.core.errors import BadInput, root_cause
from anabranch.ingest.files._avro_blocks import avro_tables
from anabranch.ingest.files._column_json import JSON_NUMBER
from anabranch.ingest.files._json_lines import Unreadable, open_file

_FAULTS: Final = (Unreadable, OSError, EOFError, zlib.error, ValueError, csv.Error, pa.ArrowException)


def sample_lines(file: str, limit: int) -> list[str] | None:
    """The first ``limit`` rows of a local file, each as a JSON object. None if its name isn't that of a file with
    columns. Raises BadInput SAMPLE."""
    packed, path = file.endswith(".gz"), Path(file)
    kind = Path(file.removesuffix(".gz")).suffix.lower()
    if kind not in (".avro", ".csv", ".parquet"):
        return None
    try:
        if kind == ".csv":
            return _typed(*_cells(path, limit, packed=packed))
        tables = avro_tables(path) if kind == ".avro" else pq.ParquetFile(path).iter_batches()
        rows = (row for table in tables for row in table.to_pylist(maps_as_pydicts="lossy"))
        return [json.dumps({name: _json(value) for name, value in row.items()}) for row in islice(rows, limit)]
    except OverflowError:  # Python's dates and times have no other years
        why = f"{file!a} can't be read: a date or time in it is outside of the years 1 to 9999"
        raise BadInput("SAMPLE", why, next_step="give a sample without such rows") from None
    except _FAULTS as error:
        why = f"{file!a} can't be read: {root_cause(error)}"
        raise BadInput("SAMPLE", why, next_step="give a CSV file with a header, Parquet, Avro or JSON lines") from None


def _cells(path: Path, limit: int, *, packed: bool) -> tuple[list[str], list[list[str]]]:
    with io.TextIOWrapper(open_file(path, packed=packed), "utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        names = next(rows, [])
        if not names or not all(names) or len(set(names)) < len(names):
            raise Unreadable("its first line must name each column, each differently")
        found = [row for row in islice(rows, limit) if row]
        if wrong := next((n for n, row in enumerate(found, 2) if len(row) != len(names)), None):
            raise Unreadable(f"row {wrong} hasn't as many cells as its first line")
        return names, found


def _typed(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A column whose cells are all numbers, or all true or false, has these; an empty cell is null."""
    columns = [_literals([row[place] for row in rows]) for place in range(len(names))]
    keys = [json.dumps(name) for name in names]
    return [
        "{" + ", ".join(f"{k}: {each}" for k, each in zip(keys, row, strict=True)) + "}"
        for row in zip(*columns, strict=True)
    ]


def _literals(cells: Sequence[str]) -> Iterator[str]:
    given = [cell for cell in cells if cell]
    if all(re.fullmatch(JSON_NUMBER, cell) for cell in given):
        return (cell or "null" for cell in cells)
    if all(cell.lower() in ("true", "false") for cell in given):
        return (cell.lower() or "null" for cell in cells)
    return (json.dumps(cell) if cell else "null" for cell in cells)


def _json(value: Any) -> Any:
    """As ``load`` writes it; a decimal is a text, so that its digits are kept."""
    match value:
        case dict():
            return {str(name): _json(each) for name, each in value.items()}
        case list() | tuple():
            return [_json(each) for each in value]
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            at = value if value.tzinfo else value.replace(tzinfo=UTC)
            return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bytes():
            return base64.b64encode(value).decode()
        case date():
            return value.isoformat()
        case None | bool() | int() | str():
            return value
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
