"""Events: their envelope, their contracts and the topics that they are declared for."""

from anabranch.contracts.contract import Compatibility, Contract
from anabranch.contracts.declarations import Declarations, load_declarations
from anabranch.contracts.envelope import Event
from anabranch.contracts.topics import Sources, Topic, Topics
from anabranch.contracts.upcasters import Upcaster

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
