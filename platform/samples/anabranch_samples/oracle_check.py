"""Compares what readers get of the sample views with the oracle; also as a check of the doctor (``--sent``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anabranch.compute.batch.publish import publications
from anabranch.contracts import Topic
from anabranch.core.errors import BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.doctor import Check, Context, Finding
from anabranch.serve import read

from anabranch_samples.oracle import VIEWS, Agreement, Oracle


def oracle_of(settings: Settings, topic: Topic, file: Path) -> Oracle:
    """Returns the oracle over the producer's ``file``, with landing's epochs."""
    epochs = [
        (committed.note.cut.epoch(topic.name), partition, offset)
        for committed in commit_history(landing_table(settings, topic.name))
        for partition, offset in committed.note.cut.positions[topic.name].offsets.items()
    ]
    return Oracle(file, topic.name, topic.allowed_lateness, epochs)


def compare_with_oracle(settings: Settings, view: str, topic: Topic, file: Path) -> Agreement:
    """Compares every served row of ``view``, at its cuts, with the oracle's rows. The oracle knows only version 1."""
    served = read(view, settings=settings)
    if served.version != 1:
        raise BadInput(
            "NO_ORACLE",
            f"the oracle knows only version 1 of {view}, but v{served.version} is served",
            next_step="run the doctor without --sent; --rows recomputes rows of any version",
        )
    published = publications(VersionRef(settings, view, served.version).batch_table)
    batch = {
        day: published[day].cut.epoch(topic.name)
        for day, half in served.halves.items()
        if half == "batch" and day is not None
    }
    complete = None if list(served.halves) == [None] else batch
    return oracle_of(settings, topic, file).compare(view, served.to_arrow(), served.cut.epoch(topic.name), complete)


def oracle_check(sent: Path) -> Check:
    """Returns a check that compares the sample views' served rows with DuckDB's result over ``sent``, the producer's
    file."""

    def served(platform: Context) -> Iterator[Finding]:
        """SERVED_OTHER: readers get other rows than the oracle expects."""
        for view in (known for known in platform.views if known.version == 1 and known.name in VIEWS):
            try:
                agreement = compare_with_oracle(platform.settings, view.name, platform.views.topic(view).each[0], sent)
            except (TryAgain, BadInput):  # nothing is committed yet, or another version is served
                continue
            if not agreement.agreed:
                rows = f"{len(agreement.only_served)} unexpected rows, {len(agreement.only_expected)} missing"
                example = [*agreement.only_served, *agreement.only_expected][0]
                next_step = f"anabranch explain {view.name}, for the row {dict(example)}"
                what = f"of {agreement.rows} served rows, some differ from DuckDB's result over {sent}: {rows}"
                yield Finding("SERVED_OTHER", f"{view.name}, as it is read now", what, next_step)

    return Check("served rows against an oracle", served)
