"""``anabranch load``: takes files of history into landing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli._context import project

if TYPE_CHECKING:
    from anabranch.ingest.files import LoadReport


def register(app: typer.Typer) -> None:
    app.command("load")(load_command)


def load_command(
    topic: Annotated[str, typer.Argument(help="A declared topic.")],
    files: Annotated[
        list[str],
        typer.Argument(help="Files (.jsonl, .csv, .parquet, .avro), folders with such files, or s3://bucket/prefix."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Load files of history straight into landing. Their events reach readers through batch.

    Safe to repeat and to kill: a file is identified by its content, and rows that have landed are skipped. A store that
    is away is waited for, an hour at most. Exit code 1 if a file can't be read; the others are loaded.
    """
    from anabranch.core.engine.lifetime import engine
    from anabranch.core.text.terminal_text import printable
    from anabranch.ingest.files import Patience, check_loadable, find_files, load

    def tell(line: str) -> None:
        typer.echo(printable(line), err=True)

    settings, declared = project()
    chosen = declared.topic(topic)
    check_loadable(chosen)
    find_files(files, Patience(settings, chosen.name, tell))  # before an engine is started
    with engine(settings, "anabranch-load") as spark:
        report = load(spark, settings, chosen, files, tell)
    typer.echo(json.dumps(report.to_json()) if as_json else printable(report_text(report)))
    if report.refused:
        raise typer.Exit(1)


def report_text(report: LoadReport) -> str:
    """The summary of a load: files, rows by decision, and what is wrong with rows, each kind once."""
    from anabranch.core.text.quantities import counted

    skipped = sum(file.skipped for file in report.files)
    counts = ", ".join(f"{count:,} {name}" for name, count in report.decisions.items())
    before = f", {skipped} of them had landed before" if skipped else ""
    files, landed = counted(len(report.files), "file"), counted(report.landed, "row")
    text = [f"{report.topic}: {files}{before}; landed {landed}: {counts}"]
    text += [f"  {counted(count, 'row')}: {problem}" for problem, count in report.problems.most_common()]
    text += [f"  not loaded: {file.error}" for file in report.refused]
    if report.decisions["quarantined"]:
        text.append(f"anabranch quarantine list {report.topic} shows these rows; they can be released later")
    if report.decisions["loaded"]:
        text.append("anabranch reprocess VIEW --missing publishes the days that they fill")
    return "\n".join(text)
