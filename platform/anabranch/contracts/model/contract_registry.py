"""Records each version of a contract once, in ``control/contracts/<name>.v<N>.json`` below the home.

Landing writes the record when it opens its table, before the first event of that version lands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from anabranch.contracts.fields.field_types import same_shape, sent_names
from anabranch.contracts.fields.restrictions import FORMATS
from anabranch.contracts.model.compatibility import narrowed
from anabranch.contracts.model.contract import Compatibility, Contract
from anabranch.contracts.model.topics import Topic
from anabranch.core.control_file import ControlFile
from anabranch.core.errors import Conflict
from anabranch.core.settings import Settings

_DESCRIPTIONS = {"title", "description", "$schema"}


@dataclass(frozen=True, slots=True)
class ContractRecord:
    """A version of a contract as events have landed with it."""

    name: str
    version: int
    fingerprint: str
    compatibility: Compatibility
    schema: Mapping[str, Any] = field(hash=False)


RECORD: Final = ControlFile("contract", ContractRecord)


def contract_folder(settings: Settings) -> Path:
    return settings.home / "control" / "contracts"


def record_path(settings: Settings, contract: Contract) -> Path:
    return contract_folder(settings) / f"{contract.name}.v{contract.version}.json"


def fingerprint(contract: Contract | ContractRecord) -> str:
    """16 hex digits over what the contract demands; descriptions and the order of keys make no difference."""
    demanded = json.dumps(_without_descriptions(contract.schema), sort_keys=True)
    return hashlib.sha256(f"{contract.name} {contract.version} {demanded}".encode()).hexdigest()[:16]


def register(settings: Settings, topic: Topic) -> None:
    """Record every version of the topic's contracts, after ``check_registered``. A crash leaves some of them out; the
    next call writes those."""
    for contract in check_registered(settings, topic):
        compatibility, schema = contract.compatibility, contract.schema
        record = ContractRecord(contract.name, contract.version, fingerprint(contract), compatibility, schema)
        RECORD.write(record_path(settings, contract), record)


def check_registered(settings: Settings, topic: Topic) -> list[Contract]:
    """The versions whose record is missing or differs in an allowed way.

    Allowed is a version with the same fields and types that rejects nothing it allowed before: quarantined events can
    then be released. Raises Conflict CONTRACT_CHANGED for any other change, CONTRACT_VANISHED for a recorded version
    that is no longer declared: its events stay landed, and nothing would say how to read them.
    """
    new = []
    for contract in topic.contracts:
        known = RECORD.read(record_path(settings, contract))
        if known is None or fingerprint(known) != fingerprint(contract):
            new.append(contract)
        broken = list(_changes(known, contract)) if known is not None else []
        if broken:
            raise Conflict(
                "CONTRACT_CHANGED",
                f"{contract.name} v{contract.version} isn't what events were landed with: {'; '.join(broken)}",
                state="nothing was written; what was landed stays as it is",
                next_step=f"undo the change, or write it as {contract.name}.v{contract.version + 1}.json",
                contract=contract.name,
                version=contract.version,
                broken=tuple(broken),
            )
    _check_vanished(settings, topic)
    return new


def _check_vanished(settings: Settings, topic: Topic) -> None:
    for event_type in topic.event_types:
        declared = {c.version for c in topic.versions(event_type)}
        for path in sorted(contract_folder(settings).glob(f"{event_type}.v*.json")):
            number = path.name.removeprefix(f"{event_type}.v").removesuffix(".json")
            if number.isdecimal() and int(number) not in declared:
                raise Conflict(
                    "CONTRACT_VANISHED",
                    f"topic {topic.name} no longer declares {event_type} v{number}, but events of it may have landed",
                    state="nothing was written; what was landed stays as it is",
                    next_step=f"declare it again, next to the newer one. If `anabranch census {topic.name}` shows "
                    f"no event of it, you can delete {path} instead",
                    contract=event_type,
                    version=int(number),
                )


def _changes(known: ContractRecord, now: Contract) -> Iterator[str]:
    """The record isn't made a Contract: it may be of a version that accepted more schemas than this one."""
    landed = replace(known, schema=_without_other_formats(known.schema))
    if not same_shape(landed.schema, now.schema) and not _same_fields(landed.schema, now.schema):
        yield "it has other fields or types"
    if dict(sent_names(landed.schema)) != dict(sent_names(now.schema)):
        yield "a field is sent by another name"
    yield from narrowed(landed, now)


def _without_other_formats(node: Mapping[str, Any]) -> dict[str, Any]:
    """The node without formats that landing doesn't know: they were accepted once, and never had a meaning."""
    found = {key: value for key, value in node.items() if key != "format" or value in [*FORMATS]}
    if "properties" in node:
        found["properties"] = {name: _without_other_formats(child) for name, child in node["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if inner in node:
            found[inner] = _without_other_formats(node[inner])
    return found


def _same_fields(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Like ``same_shape``, but in any order of fields."""
    return same_shape(_sorted(one), _sorted(other))


def _sorted(node: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(node)
    if "properties" in node:
        found["properties"] = {name: _sorted(child) for name, child in sorted(node["properties"].items())}
    for inner in ("items", "additionalProperties"):
        if inner in node:
            found[inner] = _sorted(node[inner])
    return found


def _without_descriptions(value: Any, *, names: bool = False) -> Any:
    """``names``: the keys of ``value`` are field names, and a field may be called title."""
    if isinstance(value, list):
        return sorted(value) if all(isinstance(v, str) for v in value) else value
    if not isinstance(value, dict):
        return value
    kept = {key: child for key, child in value.items() if names or key not in _DESCRIPTIONS}
    return {key: _without_descriptions(child, names=key == "properties" and not names) for key, child in kept.items()}
