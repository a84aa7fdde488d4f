"""Events: their envelope, their contracts and the topics that they are declared for."""

from anabranch.events.contracts import Compatibility, Contract
from anabranch.events.declarations import Declarations, load_declarations
from anabranch.events.envelope import Event
from anabranch.events.topics import Sources, Topic, Topics
from anabranch.events.upcasters import Upcaster

__all__ = [
    "Compatibility",
    "Contract",
    "Declarations",
    "Event",
    "Sources",
    "Topic",
    "Topics",
    "Upcaster",
    "load_declarations",
]
