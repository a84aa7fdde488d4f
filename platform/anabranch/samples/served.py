"""What readers see of a sample view, held to the oracle."""

from __future__ import annotations

from pathlib import Path

from anabranch.batch import publications
from anabranch.errors import BadInput
from anabranch.events import Topic
from anabranch.samples.oracle import Agreement, Oracle
from anabranch.serving import read
from anabranch.settings import Settings
from anabranch.tables import notes
from anabranch.tables.layout import batch_table, landing_table


def oracle_of(settings: Settings, topic: Topic, file: Path) -> Oracle:
    """The oracle over the producer's ``file``, with the epochs that landing has cut the log into."""
    epochs = [
        (committed.note.cut.epoch(topic.name), partition, offset)
        for committed in notes(landing_table(settings, topic.name))
        for partition, offset in committed.note.cut.positions[topic.name].offsets.items()
    ]
    return Oracle(file, topic.name, topic.allowed_lateness, epochs)


def held_to_oracle(settings: Settings, view: str, topic: Topic, file: Path) -> Agreement:
    """Every served row of ``view``, at the cuts that it is served at, against the oracle's, which knows version 1."""
    served = read(view, settings=settings)
    if served.version != 1:
        raise BadInput("NO_ORACLE", f"the oracle knows version 1 of {view}, and v{served.version} is served")
    published = publications(batch_table(settings, view, served.version))
    batch = {
        day: published[day].cut.epoch(topic.name)
        for day, half in served.halves.items()
        if half == "batch" and day is not None
    }
    complete = None if list(served.halves) == [None] else batch
    return oracle_of(settings, topic, file).compare(view, served.to_arrow(), served.cut.epoch(topic.name), complete)
