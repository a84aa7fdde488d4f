"""Post-processes the files that Spark has staged for an epoch: reads the decisions, and moves duplicates out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.core.storage import storage_of
from anabranch.ingest.landing.duplicates import as_duplicates
from anabranch.ingest.landing.table.schema import EVENT_DATE
from anabranch.lake.files import StagedFile, parquet_file, restage, stage_arrow


def read_columns(uri: str, staged: Sequence[StagedFile], names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Some columns of all staged files, in file order, with the types of ``schema``."""
    wanted = pa.schema([schema.field(name) for name in names])

    def read(file: StagedFile) -> pa.Table:
        with parquet_file(Path(uri) / file.path) as opened:
            return opened.read(columns=list(names), use_threads=False).select(names)

    with ThreadPoolExecutor(4) as pool:
        tables = [table.cast(wanted) for table in pool.map(read, staged)]
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def without_duplicates(
    uri: str, staged: Sequence[StagedFile], repeats: NDArray[np.bool_], schema: pa.Schema, build: str
) -> list[StagedFile]:
    """The staged files without the rows marked in ``repeats`` (in file order), and one more file that holds these as
    duplicates."""
    ends = np.cumsum([file.rows for file in staged])
    marks = np.split(repeats, ends[:-1]) if staged else []

    def take_out(file: StagedFile, marked: NDArray[np.bool_]) -> tuple[StagedFile | None, pa.Table]:
        path = Path(uri) / file.path
        with parquet_file(path) as opened:
            data = opened.read(use_threads=False)
        mask = pa.array(marked)
        found = as_duplicates(data.filter(mask), schema)
        if marked.all():
            storage_of(path).remove(path)
            return None, found
        return restage(data.filter(pc.invert(mask)), uri, file), found

    touched = [(file, marked) for file, marked in zip(staged, marks, strict=True) if marked.any()]
    with ThreadPoolExecutor(2) as pool:
        mended = list(pool.map(lambda pair: take_out(*pair), touched))
    kept = [file for file, marked in zip(staged, marks, strict=True) if not marked.any()]
    kept += [file for file, _ in mended if file is not None]
    if not mended:
        return kept
    return kept + stage_arrow(pa.concat_tables([found for _, found in mended]), uri, build, EVENT_DATE)
