"""Upcasters: functions that turn an event of an older contract version into the next version for readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING

from anabranch.contracts.model.contract import Contract
from anabranch.core.errors import BadDefinition

if TYPE_CHECKING:
    from pyspark.sql import Column

Step = Callable[[Mapping[str, "Column"]], Mapping[str, "Column"]]


@dataclass(frozen=True, slots=True)
class Upcaster:
    """A function from one version of an event type's contract to the next version that its topic declares.

    ``function`` gets the fields of version ``version`` as columns, by name. It returns the fields of the next version
    that can't be copied: fields that are alike in both versions are copied automatically, and the function must not
    return them (``compatibility.allowed_from_upcaster``). It is called when a plan is built, never with data. It must
    be pure, which is checked when it is registered (``views._upcasting``).
    """

    event_type: str
    version: int
    function: Step = field(hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.function, FunctionType) or self.function.__name__ == "<lambda>":
            raise BadDefinition(
                "UPCASTER_FUNCTION",
                f"the upcaster from {self.event_type} v{self.version} is {self.function!r}",
                next_step="write it as a def in the file that declares the topic: its source is checked and stored",
            )


def check_upcasters(topic: str, contracts: Sequence[Contract], upcasters: Sequence[Upcaster]) -> None:
    """Raises UPCASTER_ALONE if the version before or after one isn't declared, UPCASTER_TWICE for a second one."""
    seen = set()
    for each in upcasters:
        versions = sorted(c.version for c in contracts if c.name == each.event_type)
        if each.version not in versions[:-1]:
            raise BadDefinition(
                "UPCASTER_ALONE",
                f"topic {topic}: an upcaster starts from {each.event_type} v{each.version}, but the declared versions "
                f"are {', '.join(f'v{v}' for v in versions) or 'none'}",
                next_step="declare the version that it starts from and a newer one, in the same topic",
            )
        if (each.event_type, each.version) in seen:
            raise BadDefinition(
                "UPCASTER_TWICE",
                f"topic {topic}: two upcasters from {each.event_type} v{each.version}",
                next_step="remove one of them",
            )
        seen.add((each.event_type, each.version))
