"""``anabranch up``, ``down``, ``restart`` and ``status``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.apps.cli._tables import print_whole
from anabranch.core.text.terminal_text import printable

if TYPE_CHECKING:
    from rich.table import Table

    from anabranch.compute.speed.status import ViewStatus
    from anabranch.core.settings import Settings
    from anabranch.operate.runtime.lifecycle import PartStatus, Progress


def register(app: typer.Typer) -> None:
    for command in (up, down, restart, status):
        app.command()(command)


def up(
    only: Annotated[
        str,
        typer.Option(help="Only these parts or groups (airflow, streams), comma-separated.", metavar="PARTS"),
    ] = "",
) -> None:
    """Start the platform, wait until it is ready, and leave it running; processes that die are restarted."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from anabranch.core.project_folder import check_project
    from anabranch.core.settings import load_settings
    from anabranch.operate.runtime.lifecycle import start

    settings, console = load_settings(), Console(highlight=False)
    check_project(settings.project)  # a home alone is enough to read, not to run
    names = [name.strip() for name in only.split(",") if name.strip()]
    columns = (
        TextColumn("starting"),
        BarColumn(24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        notices = start(settings, names, _show_progress(bar, bar.add_task("", total=None)))
    for notice in notices:
        console.print(f"note: {notice}", soft_wrap=True, markup=False)
    for name, text in addresses(settings).items():
        console.print(f"{name:<10} {text}", soft_wrap=True, markup=False)
    console.print("next       anabranch status, anabranch down")


def _show_progress(bar: Any, task: Any) -> Progress:
    def show(states: Mapping[str, str]) -> None:
        waiting = [name for name, state in states.items() if state not in ("running", "done")]
        bar.update(task, total=len(states), completed=len(states) - len(waiting), description=", ".join(waiting))

    return show


def addresses(settings: Settings) -> dict[str, str]:
    """Returns the addresses of what is running, by label. The password itself is shown only in a terminal."""
    from anabranch.core.airflow_settings import airflow_address, passwords_file
    from anabranch.operate.runtime.lifecycle import status as parts_now
    from anabranch.operate.runtime.secret_files import airflow_login

    running = {part.name for part in parts_now(settings) if part.state == "running"}
    found = {"log": settings.brokers}
    if "airflow-api-server" in running:
        user, password = airflow_login(settings)
        shown = password if sys.stdout.isatty() else f"in {passwords_file(settings)}"
        found["Airflow"] = f"{airflow_address(settings)}  user {user}  password {shown}"
        if settings.airflow_logins:
            others = ", ".join(f"{name} ({role})" for name, role in settings.airflow_logins.items())
            found["logins"] = f"{others}  passwords in {passwords_file(settings)}"
    found["Data Docs"] = (settings.home / "data_docs").as_uri()
    found["logs"] = settings.logs.as_uri()
    return found


def down() -> None:
    """Stop exactly the processes that `up` started, in reverse order. Does nothing if nothing runs."""
    from anabranch.core.settings import load_settings
    from anabranch.operate.runtime.lifecycle import stop

    stopped = stop(load_settings())
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def restart(
    part: Annotated[str, typer.Argument(help="A part, as `status` names it: landing, speed, kafka, ...")],
) -> None:
    """Restart one part and wait until it runs; the others keep running. Settings stay as they were at `up`."""
    from anabranch.core.settings import load_settings
    from anabranch.operate.runtime.lifecycle import restart as again

    now = again(load_settings(), part)
    typer.echo(f"{now.name} runs again: pid {now.pid}, start {now.restarts + 1}")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show each service with its process, memory and lag; each view's stream with its cut, state, late events in no
    half, and error; how far runs are that rebuild or replay days now; and loads that wait for their store."""
    from dataclasses import asdict

    from anabranch.change.run_progress import all_work
    from anabranch.compute.speed.status import read
    from anabranch.core.settings import load_settings
    from anabranch.ingest.files import waiting_loads
    from anabranch.operate.runtime.lag import lag
    from anabranch.operate.runtime.late_status import late_missing
    from anabranch.operate.runtime.lifecycle import status as parts_now

    settings = load_settings()
    parts = parts_now(settings)
    behind = lag(settings) if parts else {}
    streams = any(part.name == "speed" and part.state == "running" for part in parts)
    views = read(settings) if streams else []
    lacking = [late_missing(settings, view.view, view.version) for view in views]
    work = list(all_work(settings)) if parts else []
    waiting = waiting_loads(settings)  # a command: it needs no part to run
    if as_json:
        pairs = zip(views, lacking, strict=True)
        shown = {
            "parts": [asdict(part) | {"lag": behind.get(part.name, "")} for part in parts],
            "views": [asdict(view) | {"late_missing": late} for view, late in pairs],
            "work": [dict(zip(("view", "version", "run", "progress"), each, strict=True)) for each in work],
            "loads": [{"topic": topic, "waits_for": why} for topic, why in waiting.items()],
        }
        typer.echo(json.dumps(shown))
    elif parts:
        _print_table(parts, behind)
        _print_views(views, lacking, settings.state_limit_mb)
        for view, version, _, progress in work:
            typer.echo(f"\n{view} v{version}: {progress}")
    else:
        typer.echo("nothing was started; next: anabranch up")
    if not as_json:
        for topic, why in waiting.items():
            typer.echo(f"\nload into {topic} waits: {printable(why)}")


def _table(first: str, *others: str) -> Table:
    """Columns without borders. On a narrow terminal all but the first wrap."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for column in others:
        table.add_column(column, overflow="fold")
    return table


def _print_table(parts: list[PartStatus], behind: Mapping[str, str]) -> None:
    from rich.markup import escape

    table = _table("part", "state", "pid", "since (UTC)", "memory", "port", "lag")
    colours = {"running": "green", "done": "green", "starting": "yellow", "waiting": "yellow", "dead": "red"}
    for part in parts:
        again = f", start {part.restarts + 1}" if part.restarts else ""
        table.add_row(
            part.name,
            f"[{colours[part.state]}]{part.state}[/]{again}",
            str(part.pid or ""),
            time.strftime("%m-%d %H:%M:%S", time.gmtime(part.since)) if part.since else "",
            f"{part.memory_bytes / 1e6:,.0f} MB" if part.memory_bytes else "",
            str(part.port or ""),
            escape("; ".join(filter(None, (part.detail, behind.get(part.name))))),
        )
    print_whole(table)


def _print_views(views: Sequence[ViewStatus], lacking: Sequence[str], limit_mb: int) -> None:
    from rich.markup import escape

    if not views:
        return
    table = _table("view", "stream", "cut", "micro-batch", "state", "late, in no half")
    notes = list[str]()
    colours = {"running": "green", "waiting": "yellow", "failed": "red", "unread": "red", "retired": "dim"}
    for view, late in zip(views, lacking, strict=True):
        large = view.state_bytes > limit_mb * 10**6 / 2
        told = view.batch is not None or view.state_bytes
        kept = f"{view.state_rows:,} rows, {view.state_bytes / 1e6:,.0f} MB" if told else ""
        warning = f"its state is more than half of the limit of {limit_mb:,} MB, at which it stops" if large else ""
        table.add_row(
            escape(str(view)),
            f"[{colours[view.state]}]{view.state}[/]",
            view.cut,
            f"{view.batch_ms / 1000:.1f} s" if view.batch is not None else "",
            f"[yellow]{kept}[/]" if large else kept,
            f"[yellow]{late}[/]" if late not in ("", "0") else late,
        )
        if view.error or warning:
            notes.append(f"{view}: {view.error.splitlines()[0] if view.error else warning}")
    typer.echo()
    print_whole(table)
    for note in notes:
        typer.echo(printable(note))
