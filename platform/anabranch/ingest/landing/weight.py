"""How many records landing brings into its own process at once.

How many bytes a micro-batch holds is only known once it was read, and what comes as Arrow is held several times: by the
task, by the engine's driver, and here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from anabranch.contracts import Topic
from anabranch.core.settings import Settings, heap_bytes
from anabranch.lake import StagedFile

_SHARE: Final = 8
"""Of the engine's heap, for the records of one micro-batch."""
_JUMP: Final = 2
"""The next micro-batch may hold records that are so many times larger, on average."""
_LOOKS: Final = 20
"""Files whose footers are read, at most."""


class Weight:
    """What a record of a topic weighs: by the newest micro-batch of this process, before the first as much as one may.

    Not promised: that memory suffices where records grow all at once. A process that has ended by that begins again
    with the most that a record may weigh.
    """

    def __init__(self, settings: Settings, topic: Topic) -> None:
        self._room = heap_bytes(settings) // _SHARE
        self._record = float(topic.max_message_bytes)

    def are_few(self, records: int) -> bool:
        return records * self._record <= self._room

    def seen(self, size: int, records: int) -> None:
        """``records`` of a micro-batch had ``size`` bytes."""
        if records:
            self._record = max(_JUMP * size / records, 1.0)

    def seen_in(self, uri: str, staged: Sequence[StagedFile]) -> None:
        """The same of a micro-batch that Spark has staged below ``uri``."""
        some = list(islice(staged, _LOOKS))
        self.seen(sum(_size(Path(uri) / file.path) for file in some), sum(file.rows for file in some))


def _size(file: Path) -> int:
    """Of the records' bytes in a file, before it was compressed."""
    footer = pq.read_metadata(file)
    groups = (footer.row_group(number) for number in range(footer.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return sum(int(column.total_uncompressed_size) for column in columns if column.path_in_schema == "value")
