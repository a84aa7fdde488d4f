"""Events: the contracts of their types, their envelope, and the topics that carry them.

In: the declarations of a project (Python modules in ``spark_jobs/contracts``, with JSON files for the contracts). Out:
validated ``Topic`` and ``Contract`` objects, which landing, views and producers use. In the order of use:

1. ``contract`` defines a contract and validates its schema (``decimals``: that of exact numbers); ``field_types``
   compares and merges the types in schemas;
2. ``compatibility`` checks each version against the one before it, ``upcasters`` the functions between versions;
3. ``records`` says how a topic's records are read, ``topics`` combines contracts, upcasters and the broker's settings;
   ``declarations`` loads all topics of a project;
4. ``contract_registry`` records each version before its first event lands, and rejects later changes;
5. ``envelope`` writes an event as CloudEvents JSON, ``validation`` checks it before it is sent.
"""

from anabranch.contracts.contract import Compatibility, Contract
from anabranch.contracts.declarations import Declarations, load_declarations
from anabranch.contracts.envelope import Event
from anabranch.contracts.records import CloudEvents, Header, PlainJson, Record, TimeField, TypeField
from anabranch.contracts.topics import Sources, Topic, Topics
from anabranch.contracts.upcasters import Upcaster

__all__ = [
    "CloudEvents",
    "Compatibility",
    "Contract",
    "Declarations",
    "Event",
    "Header",
    "PlainJson",
    "Record",
    "Sources",
    "TimeField",
    "Topic",
    "Topics",
    "TypeField",
    "Upcaster",
    "load_declarations",
]
