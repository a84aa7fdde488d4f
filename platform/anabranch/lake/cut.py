"""A cut is a position of the log: for each topic an epoch and the offsets that the epoch ends at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Position:
    """The end of what was landed of one topic: ``offsets[partition]`` is the next offset, which isn't covered.
    Positions are equal if their epochs are: some tables store epochs without offsets."""

    epoch: int
    offsets: Mapping[int, int] = field(compare=False)

    def __post_init__(self) -> None:
        if self.epoch < 0 or any(offset < 0 for offset in self.offsets.values()):
            raise ValueError(f"negative position: {self}")


@dataclass(frozen=True, slots=True)
class Cut:
    """One position per topic. Cuts are equal if their epochs are: an epoch number is never used twice."""

    positions: Mapping[str, Position] = field(default_factory=dict, hash=False)

    def epoch(self, topic: str) -> int:
        """The newest epoch that this cut covers; 0 means nothing yet, the first epoch is 1."""
        position = self.positions.get(topic)
        return position.epoch if position else 0

    def covers(self, other: Cut) -> bool:
        """Whether this cut covers everything that ``other`` covers."""
        return all(self.epoch(topic) >= position.epoch for topic, position in other.positions.items())

    def behind(self, landed: Cut) -> dict[str, int]:
        """The lag: for each topic of this cut, how many epochs only ``landed`` covers; none: left out."""
        ahead = {topic: landed.epoch(topic) - self.epoch(topic) for topic in self.positions}
        return {topic: epochs for topic, epochs in ahead.items() if epochs > 0}

    def joined(self, other: Cut) -> Cut:
        """The smallest cut that covers both."""
        both = {**self.positions, **other.positions}
        newest = {t: p for t, p in self.positions.items() if p.epoch >= other.epoch(t)}
        return Cut({**both, **newest})

    def __str__(self) -> str:
        return ",".join(f"{topic}@{position.epoch}" for topic, position in sorted(self.positions.items())) or "nothing"

    def to_json(self) -> dict[str, Any]:
        return {
            topic: {"epoch": p.epoch, "offsets": {str(k): v for k, v in sorted(p.offsets.items())}}
            for topic, p in sorted(self.positions.items())
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Cut:
        return Cut(
            {
                topic: Position(int(p["epoch"]), {int(k): int(v) for k, v in p["offsets"].items()})
                for topic, p in content.items()
            }
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        """Control files store a cut as ``to_json`` does."""
        from pydantic_core import core_schema

        def validated(value: Any) -> Cut:
            try:
                return value if isinstance(value, Cut) else Cut.from_json(value)
            except (AttributeError, KeyError, TypeError) as error:
                raise ValueError(f"{value!r} is no cut") from error

        return core_schema.no_info_plain_validator_function(
            validated, serialization=core_schema.plain_serializer_function_ser_schema(Cut.to_json)
        )


def parse_epochs(text: str) -> dict[str, int]:
    """Epochs from text like ``flights@12,weather@3``, as a person types a cut. Raises BadInput CUT_UNREADABLE."""
    epochs: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        topic, at, number = part.partition("@")
        if not at or not number.isdecimal() or topic in epochs:
            raise BadInput("CUT_UNREADABLE", f"{text!r} is no cut", next_step="write it like flights@12", field="cut")
        epochs[topic] = int(number)
    return epochs
