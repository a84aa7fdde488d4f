"""``anabranch init`` and ``setup``: creates a project, and downloads what it needs in addition to Python packages."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.apps.cli.plugins import sample_named
from anabranch.core.errors import BadInput

if TYPE_CHECKING:
    from anabranch.apps.cli.plugins import Sample

_TEMPLATE = Path(__file__).parents[1] / "template"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ORDERS = {
    "FIRST_EVENTS": "anabranch produce events data/orders.jsonl",
    "FIRST_VIEW": "revenue",
    "FIRST_DAYS": "--from 2025-01-05 --to 2025-01-06",
    "MORE_DEPENDENCIES": "",
    "MORE_PATHS": "",
    "MORE_WHEELS": "",
}
"""Placeholders of the template's files, in addition to PROJECT_NAME, and their values in a project without a sample."""

_STARTS: dict[str, tuple[str, ...]] = {
    "topic": (
        "echo ANABRANCH_BOOTSTRAP_SERVERS=HOST:PORT >> anabranch.env",
        "anabranch topics add TOPIC                # asks what identifies an event, and when it happened",
        "anabranch topics try TOPIC --last 1000    # what landing would decide",
        "anabranch up",
    ),
    "file": (
        "anabranch topics add TOPIC --sample FILE  # .csv, .parquet, .avro, .jsonl, or an Avro schema (.avsc)",
        "anabranch up",
        "anabranch load TOPIC FILE",
    ),
    "http": (
        "anabranch http allow till --topic orders  # shows its token, once",
        "anabranch up                              # then POST to /topics/orders: docs/events-over-http.md",
    ),
    "none": (),
}
"""The next steps by what somebody has; none: those of the sample."""


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(setup)


def init(
    name: Annotated[str, typer.Argument(help="The project's name; its folder is created here.")],
    sample: Annotated[
        str, typer.Option(help="Start with the contracts and views of a sample: flights, of anabranch-samples.")
    ] = "",
    data: Annotated[
        str,
        typer.Option(
            help=f"What you have: {', '.join(_STARTS)}. Decides which next steps are shown; a terminal asks for it."
        ),
    ] = "",
) -> None:
    """Create a project: contracts, a view with its test, DAGs, settings, a compose file. Needs no checkout."""
    if not _NAME.fullmatch(name):  # a name, not a path: it becomes a folder here, and nowhere else
        raise BadInput(
            "PROJECT_NAME",
            f"{name!r} is not a valid name",
            state="nothing was written",
            next_step="use a-z, 0-9, - and _, like shop; go to the folder that should hold the project first",
        )
    folder = Path(name)
    chosen = sample_named(sample) if sample else None
    if data and data not in _STARTS:
        raise BadInput(
            "DATA_UNKNOWN", f"--data {data!r} is none of these", next_step=f"choose from {', '.join(_STARTS)}"
        )
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise BadInput(
            "FOLDER_NOT_EMPTY",
            f"{folder} already has files" if folder.is_dir() else f"{folder} is a file",
            state="nothing was written",
            next_step="choose another name, or an empty folder",
        )
    make_project(folder, chosen)
    if not data and not sample and sys.stdin.isatty():
        data = _asked()
    typer.echo(f"{folder}: contracts, views, tests, DAGs, settings; README.md explains them. Next:")
    events = _placeholders(chosen)["FIRST_EVENTS"]
    steps = _STARTS.get(data) or ("pytest", "anabranch up", events, "anabranch down")
    for step in (f"cd {folder}", "anabranch setup", *steps):
        typer.echo(f"  {step}")


def _asked() -> str:
    typer.echo("What do you have? A topic that producers fill, a file of events, an HTTP client, or none of these yet.")
    while (answer := typer.prompt(f"  {', '.join(_STARTS)}", default="none")) not in _STARTS:
        pass
    return str(answer)


def make_project(folder: Path, sample: Sample | None = None) -> None:
    """Copies the template to ``folder``; with a ``sample``, with its contracts and views instead of the template's."""
    shutil.copytree(_TEMPLATE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    placeholders = {"PROJECT_NAME": folder.name, **_placeholders(sample)}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.endswith(".template"):  # so that the package's own tools don't read the file
            name = path.name.removesuffix(".template").replace("dot_", ".", 1)
            path = path.rename(path.with_name(name))
        if path.is_file():
            text = path.read_text()
            for placeholder, content in placeholders.items():
                text = text.replace(placeholder, content)
            path.write_text(text)
    if sample is not None:
        for part in ("spark_jobs", "tests", "data"):
            shutil.rmtree(folder / part)
        readme = folder / "README.md"
        readme.write_text("".join(s for s in readme.read_text().splitlines(True) if not s.startswith("| `data`")))
        for part in ("contracts", "views"):
            ignored = shutil.ignore_patterns("__pycache__", "gallery")
            shutil.copytree(sample.folder / part, folder / "spark_jobs" / part, ignore=ignored)
        (folder / "tests").mkdir()
        (folder / "tests" / "test_views.py").write_text(_SAMPLE_TEST)


def _placeholders(sample: Sample | None) -> dict[str, str]:
    if sample is None:
        return _ORDERS
    wheel = re.sub(r"[-_.]+", "_", sample.distribution).lower()  # as wheels are named
    return {
        "FIRST_EVENTS": sample.first_events,
        "FIRST_VIEW": sample.first_view,
        "FIRST_DAYS": sample.first_days,
        "MORE_DEPENDENCIES": f', "{sample.distribution}"',
        "MORE_PATHS": f" PATH/TO/{wheel}-*.whl",
        "MORE_WHEELS": f" wheels/{wheel}-*.whl",
    }


def setup() -> None:
    """Download the pinned JARs of Spark and Kafka (60 MB), and archive the classes of engine and broker (250 MB). Takes
    a minute or two; does nothing if they are there."""
    from anabranch.core.project_folder import project_root
    from anabranch.core.settings import load_settings
    from anabranch.operate.setup import set_up

    project_root()  # raises an error outside of a project
    settings = load_settings()
    set_up(settings, lambda text: typer.echo(f"setup: {text}", err=True))
    typer.echo(f"setup: done, in {settings.jars}")


_SAMPLE_TEST = '''"""Each view is proven: random logs through the function and both real paths."""

from pathlib import Path

import pytest
from anabranch.contracts import load_declarations
from anabranch.testing import prove
from anabranch.views import load_views

JOBS = Path(__file__).parent.parent / "spark_jobs"
DECLARED = load_declarations(JOBS / "contracts")


@pytest.mark.parametrize("view", load_views(JOBS / "views", DECLARED), ids=lambda view: view.name)
def test_both_paths_agree(view):
    prove(view, declarations=DECLARED, quick=True)
'''
