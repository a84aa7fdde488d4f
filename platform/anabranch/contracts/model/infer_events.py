"""Infers from CloudEvents the contract of their data, and how a topic's declaration reads them as their producers make
them: their types, their schemas, and what has no time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from anabranch.contracts.model._samples import check_name, read_records
from anabranch.contracts.model.contract import EVENT_TYPE, URN
from anabranch.contracts.model.infer import infer_records
from anabranch.contracts.model.inferred import Inferred
from anabranch.core.errors import BadInput

_ENVELOPE: Final = ("specversion", "id", "source", "type")
_MOSTLY: Final = 0.8
_MOST_SCHEMAS: Final = 5
Event = Mapping[str, Any]


def infer_topic(name: str, lines: Iterable[str], *, broken: bool = False) -> Inferred:
    """As ``infer``, also from CloudEvents (in structured mode): then from the data of one type of event, which is to be
    called ``name``."""
    check_name(name)
    records, left_out = read_records(lines, broken=broken)
    events = [record for record in records if _is_event(record)]
    if len(events) < _MOSTLY * len(records):
        return infer_records(name, records, left_out)
    sent = _type_of(name, events)
    mine, others = [e for e in events if e["type"] == sent], Counter(e["type"] for e in events if e["type"] != sent)
    data = [event["data"] for event in mine if isinstance(event.get("data"), dict)]
    if not data:
        raise BadInput(
            "SAMPLE",
            f"no event of type {sent!a} has a JSON object as its data",
            next_step="give other records; what can't be read as CloudEvents may be declared as Raw",
        )
    left_out += [
        f"{count:,} events of type {kind!a} need a contract of their own, and a name in types"
        for kind, count in others.most_common()
    ]
    if without := len(mine) - len(data):
        left_out.append(
            f"{without:,} of {len(mine):,} events have no JSON object as their data (data_base64 isn't read)"
        )
    if (count := len(_foreign_schemas(mine))) > 1:
        left_out.append(f"events of {count} schemas (dataschema) are read by one contract: see which of them it fits")
    found = infer_records(name, data, left_out)
    return Inferred(
        name, found.schema, found.left_out, len(mine), None, None, "CloudEvents", tuple(_arguments(name, sent, mine)),
        money=found.money,
    )  # fmt: skip


def proposed_type(sent: str) -> str:
    """A name of ours for the type of others' events: ``com.example.OrderPlaced`` becomes ``order.placed``."""
    if EVENT_TYPE.fullmatch(sent):
        return sent
    parts = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", part).lower() for part in re.split(r"[./:]", sent)]
    words = [[word for word in re.split(r"[^a-z0-9]+", part) if word[:1].isalpha()] for part in parts]
    given = words[-1] if len(words[-1]) > 1 else [word for part in words[-2:] for word in part]
    name = (
        f"{'_'.join(given[:-1])[:40]}.{given[-1][:40]}" if len(given) > 1 else f"{(given or ['record'])[0][:40]}.sent"
    )
    return name if EVENT_TYPE.fullmatch(name) else "record.sent"


def common_type(lines: Iterable[str]) -> str:
    """The name that is proposed for the most frequent type of events; empty if most records are none."""
    try:
        records, _ = read_records(lines, broken=True)
    except BadInput:
        return ""
    kinds = Counter(str(record["type"]) for record in records if _is_event(record))
    return proposed_type(kinds.most_common(1)[0][0]) if kinds.total() >= _MOSTLY * len(records) else ""


def _is_event(record: Event) -> bool:
    return all(isinstance(record.get(name), str) for name in _ENVELOPE)


def _type_of(name: str, events: Sequence[Event]) -> str:
    """What is sent for ``name``: itself, else the type that it would be proposed for, else the most frequent one."""
    kinds = [kind for kind, _ in Counter(str(event["type"]) for event in events).most_common()]
    fitting = [kind for kind in kinds if kind == name] or [kind for kind in kinds if proposed_type(kind) == name]
    return (fitting or kinds)[0]


def _arguments(name: str, sent: str, events: Sequence[Event]) -> Iterable[str]:
    """Python of the format's arguments, where what is sent isn't as it would be from our own producers."""
    if sent != name:
        yield f'types={{{_text(sent)}: "{name}"}}'
    uris = _foreign_schemas(events)
    if len(uris) > _MOST_SCHEMAS:
        yield 'schemas="any"'
    elif uris:
        yield f"schemas={{{', '.join(f'{_text(uri)}: 1' for uri in uris)}}}"
    if any(event.get("time") is None for event in events):
        yield "time=Record.APPEND_TIME"


def _foreign_schemas(events: Sequence[Event]) -> list[str]:
    given = [event["dataschema"] for event in events if event.get("dataschema") is not None]
    return [uri for uri in dict.fromkeys(map(str, given)) if not uri.startswith(URN)]


def _text(value: str) -> str:
    """A text in Python, in one line."""
    text = ascii(value)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text and "\\" not in text else text
