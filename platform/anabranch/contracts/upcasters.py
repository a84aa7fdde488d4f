"""How an event of an older version of its contract is seen by whoever reads the newest one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING

from anabranch.contracts.contract import Contract
from anabranch.core.errors import BadDefinition

if TYPE_CHECKING:
    from pyspark.sql import Column

Step = Callable[[Mapping[str, "Column"]], Mapping[str, "Column"]]


@dataclass(frozen=True, slots=True)
class Upcaster:
    """From one version of an event type's contract to the next one that its topic declares.

    ``function`` gets the fields of version ``version`` by name, as columns, and returns those fields of the next one
    that the old ones can't be taken for: a field that both versions have alike is carried over by itself, and the
    function may not give it (``compatibility.givable``). It is called when a plan is made, never with data; it has
    to be pure, and is held to that when it is registered (``views.upcasting``).
    """

    event_type: str
    version: int
    function: Step = field(hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.function, FunctionType) or self.function.__name__ == "<lambda>":
            raise BadDefinition(
                "UPCASTER_FUNCTION",
                f"the upcaster from {self.event_type} v{self.version} is {self.function!r}",
                next_step="write it as a def in the file that declares the topic: its source is checked and kept",
            )


def check_upcasters(topic: str, contracts: Sequence[Contract], upcasters: Sequence[Upcaster]) -> None:
    """Raises UPCASTER_ALONE for one without a version to come from or to go to, UPCASTER_TWICE for a second one."""
    seen = set()
    for each in upcasters:
        versions = sorted(c.version for c in contracts if c.name == each.event_type)
        if each.version not in versions[:-1]:
            raise BadDefinition(
                "UPCASTER_ALONE",
                f"topic {topic}: an upcaster from {each.event_type} v{each.version}, but declared are "
                f"{', '.join(f'v{v}' for v in versions) or 'no versions of it'}",
                next_step="declare the version that it comes from and a newer one, in the same topic",
            )
        if (each.event_type, each.version) in seen:
            raise BadDefinition(
                "UPCASTER_TWICE",
                f"topic {topic}: two upcasters from {each.event_type} v{each.version}",
                next_step="keep the one that is meant",
            )
        seen.add((each.event_type, each.version))
