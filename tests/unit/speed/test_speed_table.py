"""A stream commits directly after the commit that it decided by, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from anabranch.compute.speed.table import BatchAction, SpeedTable
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings
from anabranch.lake import open_table
from anabranch.lake.files import StagedFile, stage_arrow
from anabranch.views import View
from anabranch.views.model.definition import EMPTIED, PARTITION_DATE
from support.small_platform import DAYS, SPEED, V1, Clinic, departed, rows_on

pytestmark = pytest.mark.unit
BY_PARTITIONS = replace(V1, refresh="partitions")
VIEWS = pytest.mark.parametrize("view", [V1, BY_PARTITIONS], ids=["state", "partitions"])
WHOLE = pytest.mark.parametrize("whole", [True, False], ids=["refresh", "replace"])


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    made = Clinic(Settings(home=tmp_path))
    made.land([departed(n, DAYS[n % 5]) for n in range(5)])
    made.speed()
    return made


def opened(clinic: Clinic, view: View) -> SpeedTable:
    """The table as a process has it that has decided to commit the next batch."""
    table = SpeedTable(clinic.handle().speed_table, view, SPEED)
    owner, batch = next_batch(table)
    assert table.action_for(owner, batch, clinic.cut) is BatchAction.NEXT
    return table


def next_batch(table: SpeedTable) -> tuple[str, int]:
    owner, _, number = table.newest().note.batch.partition(":")
    return owner, int(number) + 1


def staged(clinic: Clinic, origin: str) -> list[StagedFile]:
    rows = rows_on(DAYS[:1], clinic.epoch, origin=origin)
    return list(stage_arrow(rows, clinic.handle().speed_table, origin.lower(), PARTITION_DATE))


def write(clinic: Clinic, table: SpeedTable, origin: str, batch: str, *, whole: bool) -> None:
    files, note = staged(clinic, origin), table.note(batch, clinic.cut)
    if whole:
        table.refresh(files, note)
    else:
        table.replace(files, DAYS[:1], note)


def origins(clinic: Clinic) -> set[str]:
    table = open_table(clinic.handle().speed_table)
    assert table is not None
    return {row["origin"] for row in table.to_pyarrow_table().to_pylist() if row[PARTITION_DATE] == DAYS[0]}


@VIEWS
@WHOLE
def test_who_slept_while_a_successor_committed_commits_nothing(clinic: Clinic, view: View, whole: bool) -> None:
    sleeper, successor = opened(clinic, view), opened(clinic, view)
    owner, batch = next_batch(successor)
    write(clinic, successor, "NEW", f"{owner}:{batch}", whole=whole)
    with pytest.raises(Conflict) as refused:
        write(clinic, sleeper, "OLD", f"{owner}:{batch}", whole=whole)
    assert refused.value.code == "TABLE_MOVED"
    assert origins(clinic) == {"NEW"}


def test_partitions_that_lost_their_rows_are_named_until_they_have_some_again(clinic: Clinic) -> None:
    table = opened(clinic, BY_PARTITIONS)
    table.replace([], DAYS[:2], table.note("c:1", clinic.cut))
    assert set(table.newest().note.extra[EMPTIED]) == {f"{day}" for day in DAYS[:2]}
    table.replace(staged(clinic, "JFK"), DAYS[:1], table.note("c:2", clinic.cut))
    assert set(table.newest().note.extra[EMPTIED]) == {f"{DAYS[1]}"}
