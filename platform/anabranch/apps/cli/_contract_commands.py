"""``anabranch contracts``: a contract and a topic from sample records, or from their schema."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._context import project
from anabranch.core.errors import AnabranchError, BadInput, Conflict

if TYPE_CHECKING:
    from anabranch.contracts.fields.registered_schema import RegisteredSchema
    from anabranch.contracts.model.declarations import Declarations
    from anabranch.contracts.model.inferred import Inferred
    from anabranch.ingest.kafka.look import LogRecord

contracts = typer.Typer(no_args_is_help=True, help="Contracts: inferred from sample records, or from their schema.")
_MAX_RECORDS = 100_000
_LOG_RECORDS = 10_000


def register(app: typer.Typer) -> None:
    app.add_typer(contracts, name="contracts")


@contracts.command("infer")
def infer_command(
    file: Annotated[
        str,
        typer.Argument(
            help="Sample records (100,000 are read): one JSON object per line (- for standard input), or rows of a "
            ".csv, .parquet or .avro file. Or the schema of the records: an .avsc file, or a .desc file of protoc."
        ),
    ] = "",
    event_type: Annotated[str, typer.Option("--type", help="The event type, like payment.made.")] = "",
    topic: Annotated[str, typer.Option("--topic", help="The topic's name in Kafka, like payments.")] = "",
    subject: Annotated[
        str, typer.Option("--subject", help="Instead of FILE: a subject of the schema registry, like payments-value.")
    ] = "",
    from_log: Annotated[
        bool, typer.Option("--log", help="Instead of FILE: the 10,000 newest records of the topic.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Write the files into spark_jobs/contracts.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Infer a contract from existing records, and the declaration of their topic; say what is uncertain."""
    if not event_type:
        example = "give --type payment.made --topic payments"
        raise BadInput("TOPIC_NAME", "the event type is missing", next_step=example)
    name = own_name(topic)
    if bool(file) + bool(subject) + from_log != 1:
        raise BadInput(
            "SAMPLE",
            "one source is needed",
            next_step="give a FILE, or --subject, or --log for the topic's own records",
        )
    found, more = inferred(file, event_type, topic, subject)
    declaration = found.declaration(name, topic)
    files = {f"{found.name}.v1.json": found.contract_file(), f"{name}.py": declaration, **more}
    if write:
        settings, declared = project()
        write_declaration(settings.contracts_folder, files, declared)
        typer.echo("next: check the comments, then anabranch topics list")
    elif as_json:
        known = {"contract": json.loads(found.contract_file()), "declaration": declaration}
        typer.echo(json.dumps({**known, "left_out": list(found.left_out), "records": found.records}))
    else:
        typer.echo("\n".join(f"# {name}\n{text}" for name, text in files.items()), nl=False)


def own_name(in_kafka: str) -> str:
    """The name that is proposed for a topic of Kafka: its own, if that can be one here. Raises BadInput TOPIC_NAME."""
    from anabranch.contracts.model.topics import KAFKA_NAME, TOPIC_NAME, proposed_name

    if not KAFKA_NAME.fullmatch(in_kafka):
        next_step = "give its name in Kafka: at most 249 of a-z, A-Z, 0-9, '.', '_' and '-'"
        raise BadInput("TOPIC_NAME", f"{in_kafka!r} is no topic name", next_step=next_step)
    return in_kafka if TOPIC_NAME.fullmatch(in_kafka) else proposed_name(in_kafka)


def inferred(file: str, event_type: str, topic: str, subject: str) -> tuple[Inferred, dict[str, str]]:
    """What was inferred, and files that its declaration needs besides the contract."""
    from anabranch.contracts.fields.registered_schema import RegisteredSchema
    from anabranch.contracts.model.infer_events import infer_topic
    from anabranch.contracts.model.infer_schema import infer_from_schema

    if file.endswith(".avsc"):
        text, name = _text(file), f"{event_type}.avsc"
        argument = f'schema=Path(__file__).parent / "{name}"'
        found = infer_from_schema(event_type, RegisteredSchema("avro", text), Path(file).name, (argument,))
        return found, {name: text}
    if file.endswith((".desc", ".binpb", ".proto")):
        return infer_from_schema(event_type, _compiled(file), Path(file).name), {}
    if subject:
        from anabranch.ingest.schema_registry import newest_schema

        return infer_from_schema(event_type, newest_schema(project()[0], subject), f"the subject {subject}"), {}
    if file:
        from anabranch.ingest.files import sample_lines

        lines = sample_lines(file, _MAX_RECORDS)
        return infer_topic(event_type, _lines(file) if lines is None else lines), {}
    from anabranch.ingest.kafka.look import newest

    records = newest(project()[0], topic, _LOG_RECORDS)
    return infer_topic(event_type, json_lines(topic, records), broken=True), {}


def json_lines(topic: str, records: Iterable[LogRecord]) -> Iterator[str]:
    """The values as texts, of events in binary mode as whole ones. Raises BadInput SAMPLE for records in the wire
    format of a registry."""
    from anabranch.contracts.model.event_headers import as_structured

    for record in records:
        if not (value := record.value):
            continue
        if value.startswith(b"\x00"):
            raise BadInput(
                "SAMPLE",
                f"records of {topic} are in the wire format of a schema registry, not JSON",
                next_step=f"infer from their schema: --subject {topic}-value",
            )
        yield as_structured(value, record.headers).decode(errors="replace")


def _compiled(file: str) -> RegisteredSchema:
    from anabranch.contracts.formats import compiled_schema

    compiled = Path(file).with_suffix(".desc").name
    command = f"protoc --include_imports --descriptor_set_out={compiled} {Path(file).with_suffix('.proto').name}"
    try:
        if file.endswith(".proto"):
            raise ValueError("its source can't be read here")
        return compiled_schema(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput("SAMPLE", f"{file!a}: {error}", next_step=f"{command}; then give {compiled}") from None


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, ValueError) as error:
        raise BadInput("SAMPLE", f"{file!a} can't be read: {error}", next_step="give a schema in Avro's JSON") from None


def _lines(file: str) -> list[str]:
    """The first lines of the sample: a whole topic may be in the file, and more records say nothing new."""
    try:
        with contextlib.nullcontext(sys.stdin) if file == "-" else Path(file).open() as source:
            return list(islice(source, _MAX_RECORDS))
    except (OSError, ValueError) as error:
        raise BadInput(
            "SAMPLE", f"{file!a} can't be read: {error}", next_step="give JSON lines, .csv, .parquet or .avro"
        ) from None


def write_declaration(folder: Path, files: dict[str, str], declared: Declarations) -> None:
    """Write the files of a declaration, or none: a file that can't be loaded together with the ``declared`` ones
    would stop everything that starts afterwards. Raises Conflict FILE_EXISTS, BadInput TOPIC_DECLARED or
    EVENT_TYPE_TWICE, or what loading them raises."""
    if there := [name for name in files if (folder / name).exists()]:
        raise Conflict(
            "FILE_EXISTS",
            f"{folder / there[0]} exists already",
            state="nothing was written",
            next_step="move it away, or leave out --write and compare",
        )
    _check_loads(folder, files, declared)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
        typer.echo(f"wrote {folder / name}")


def _check_loads(folder: Path, files: dict[str, str], declared: Declarations) -> None:
    from anabranch.contracts import load_declarations

    with tempfile.TemporaryDirectory() as place:
        for name, text in files.items():
            (Path(place) / name).write_text(text)
        try:
            made = load_declarations(Path(place), beside=declared.topics.values()).topics
        except AnabranchError as error:
            error.what, error.state = error.what.replace(place, str(folder)), "nothing was written"
            raise
    if known := made.keys() & declared.topics.keys():
        raise BadInput(
            "TOPIC_DECLARED",
            f"{min(known)} is declared already",
            state="nothing was written",
            next_step="anabranch topics list; or leave out --write and compare",
        )
