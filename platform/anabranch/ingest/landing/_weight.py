"""Decides whether a micro-batch is small enough to be collected into this process, or is staged by Spark.

The size of a micro-batch is known only after it was read, and collected rows are in memory three times: in the task, in
the engine's driver, and here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from anabranch.contracts import Topic
from anabranch.core.settings import Settings, heap_bytes
from anabranch.lake.files import StagedFile, parquet_file

_SHARE: Final = 8
"""One micro-batch may take this fraction (1/8) of the engine's heap."""
_JUMP: Final = 2
"""The margin: the next micro-batch's records may be so many times larger on average."""
_MAX_FOOTERS: Final = 20
"""How many staged files are measured, at most."""


class Weight:
    """The estimated size of a topic's record: from the last micro-batch of this process; before the first, the largest
    size that the topic allows.

    Not guaranteed: enough memory when records suddenly grow. A process that ended because of that starts with the
    largest size again.
    """

    def __init__(self, settings: Settings, topic: Topic) -> None:
        self._limit = heap_bytes(settings) // _SHARE
        self._record_bytes = float(topic.max_message_bytes)

    def are_few(self, records: int) -> bool:
        return records * self._record_bytes <= self._limit

    def seen(self, size: int, records: int) -> None:
        """Record that ``records`` records of a micro-batch had ``size`` bytes."""
        if records:
            self._record_bytes = max(_JUMP * size / records, 1.0)

    def seen_in(self, uri: str, staged: Sequence[StagedFile]) -> None:
        """The same for a micro-batch that Spark has staged below ``uri``."""
        some = list(islice(staged, _MAX_FOOTERS))
        self.seen(sum(_size(Path(uri) / file.path) for file in some), sum(file.rows for file in some))


def _size(file: Path) -> int:
    """The uncompressed size of the records' bytes in a file."""
    with parquet_file(file) as opened:
        footer = opened.metadata
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return sum(int(column.total_uncompressed_size) for column in columns if column.path_in_schema == "value")
