"""A declared view of one project: its definition, the topics that it reads, and where its version is kept."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.contracts.model.topics import Sources
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.views.model.definition import View


@dataclass(frozen=True, init=False)
class ViewHandle(VersionRef):
    """Everything that a function needs to work on one view. It holds the settings of the home, secrets included, so
    functions that Spark sends to its workers take ``definition`` or ``topics``, never the handle."""

    definition: View
    topics: Sources

    def __init__(self, settings: Settings, definition: View, topics: Sources) -> None:
        super().__init__(settings, definition.name, definition.version)
        object.__setattr__(self, "definition", definition)
        object.__setattr__(self, "topics", topics)
