"""An inferred contract with a guess at the mapping, and the two files that declare it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from anabranch.contracts.fields.null_values import as_written
from anabranch.contracts.fields.text_formats import is_plain
from anabranch.core.text.terminal_text import in_one_line

_QUOTES: Final = re.compile(r'["\\]')


@dataclass(frozen=True)
class Inferred:
    """A contract's schema, and guesses for the mapping (None: no candidate).

    ``left_out``: fields that were left out, and objects that may be maps, with the reason."""

    name: str
    schema: Mapping[str, Any]
    left_out: tuple[str, ...]
    records: int
    """How many the sample has; 0 if there is only a schema."""
    id: str | None
    time: str | None
    """Python for ``PlainJson(time=...)``. Neither is asked for by CloudEvents, which have an envelope."""
    format: str = "PlainJson"
    arguments: tuple[str, ...] = ()
    """Python of the format's other arguments."""
    origin: str = ""
    """What it was inferred from, if not from records."""
    subject: str | None = None
    lateness: str = ""
    """Python for ``Topic(allowed_lateness=...)``; empty: the usual."""
    owned: bool = False
    confirmed: bool = False
    """Whether a person has said id and time."""
    money: tuple[str, ...] = ()
    """Fields that look like money, and aren't declared as decimals."""

    @property
    def has_envelope(self) -> bool:
        return self.format == "CloudEvents"

    @property
    def times(self) -> dict[str, str]:
        """The Python of each field that may be the event time, by the field's name, the likeliest first."""
        proposed = {self.time.split('"')[1]: self.time} if self.time else {}
        return proposed | {n: f'"{n}"' for n, node in self.fields.items() if node.get("format") == "date-time"}

    @property
    def ids(self) -> list[str]:
        """Fields that may be the id or the subject, the likeliest first."""
        found = [n for n, node in self.fields.items() if node["type"] in ("string", "integer") and is_plain(node)]
        return list(dict.fromkeys([*([self.id] if self.id else []), *found]))

    @property
    def fields(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.schema["properties"]
        return found

    def with_decimals(self, names: Collection[str]) -> Inferred:
        """The same with these fields as exact decimals of two digits behind the point."""
        exact = {"format": "decimal", "precision": 18, "scale": 2}
        nodes = {n: {**node, **exact} if n in names else node for n, node in self.fields.items()}
        for name in names:
            said = nodes[name].pop("description", "").partition("}; ")[2]
            nodes[name] |= {"description": said} if said else {}
        return replace(self, schema={**self.schema, "properties": nodes})

    def contract_file(self) -> str:
        """The JSON of ``NAME.v1.json``."""
        schema = as_written(self.schema)
        content = {"name": self.name, "version": 1, "compatibility": "backward", "schema": schema}
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def declaration(self, topic: str, in_kafka: str = "") -> str:
        """The Python module that declares the topic. ``in_kafka``: its name there."""
        unsure = [f"# {in_one_line(line)}" for line in self.left_out]
        ident = f'"{self.id}"' if self.id else "Record.OFFSET"
        why_id, other = self._why_id
        other_name = in_kafka not in ("", topic)
        why_time = "check that it says when the event happened" if self.time else "no field looks like a time"
        why_time += ", and in which zone" if "zone=" in (self.time or "") else ""
        time, whys = self.time or "Record.APPEND_TIME", [why_id if self.id else other, why_time]
        parts = [] if self.has_envelope else [f"id={ident}", f"time={time}"]
        said = " ".join([*parts, *self.arguments])
        used = [name for name in ("Record", "TimeField") if f"{name}." in said or f"{name}(" in said]
        arguments = [
            *(
                f"        {part},{'' if self.confirmed else f'  # {why}'}"
                for part, why in zip(parts, whys, strict=False)
            ),
            *([f'        subject="{self.subject}",'] if self.subject else []),
            *(f"        {each}," for each in self.arguments),
        ]
        names = sorted(["Contract", *([self.format] if arguments else []), *used, "Topic"])
        origin = in_one_line(self.origin) or f"{self.records:,} records"
        lines = [
            f'"""Topic {topic}, inferred from {_QUOTES.sub("?", origin)}. Check what the comments say."""',
            "",
            *(["from datetime import timedelta"] if self.lateness else []),
            "from pathlib import Path",
            "",
            f"from anabranch.contracts import {', '.join(names)}",
            "",
            *([*unsure, ""] if unsure else []),
            f"{topic.upper()} = Topic(",
            f'    "{topic}",{"  # its name here: tables, paths and commands have it" if other_name else ""}',
            f'    (Contract.from_file(Path(__file__).parent / "{self.name}.v1.json"),),',
            *([f"    records={self.format}(", *arguments, "    ),"] if arguments else []),
            *([f'    kafka_topic="{in_kafka}",'] if other_name else []),
            *([] if self.owned else ["    owned=False,"]),
            *([f"    allowed_lateness={self.lateness},"] if self.lateness else []),
            ")",
        ]
        return "\n".join(lines) + "\n"

    @property
    def _why_id(self) -> tuple[str, str]:
        if self.records:
            return "different in most records of the sample", "no field is different in each record"
        return "by its name: check that each event has another one", "no field is called an id"
