"""``anabranch init`` and ``setup``: creates a project, and downloads what it needs in addition to Python packages."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from anabranch.core.errors import BadInput

_TEMPLATE = Path(__file__).parents[1] / "template"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ORDERS = {
    "EXTRAS": "platform",
    "FIRST_EVENTS": "anabranch produce events data/orders.jsonl",
    "FIRST_VIEW": "revenue",
    "FIRST_DAYS": "--from 2025-01-05 --to 2025-01-06",
}
"""Placeholders of the template's files, in addition to PROJECT_NAME, and their values in a project without a sample."""
_SAMPLES = {
    "flights": {
        "EXTRAS": "platform,samples",
        "FIRST_EVENTS": "anabranch produce flights --from 2013-01-01 --days 3",
        "FIRST_VIEW": "departure_delays",
        "FIRST_DAYS": "--from 2013-01-01 --to 2013-01-02",
    }
}
"""The same for each sample."""


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
        str, typer.Option(help=f"Start with the contracts and views of a sample: {', '.join(_SAMPLES)}.")
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
    if sample and sample not in _SAMPLES:
        raise BadInput(
            "SAMPLE_UNKNOWN", f"there is no sample {sample!r}", next_step=f"choose from {', '.join(_SAMPLES)}"
        )
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
    make_project(folder, sample)
    if not data and not sample and sys.stdin.isatty():
        data = _asked()
    typer.echo(f"{folder}: contracts, views, tests, DAGs, settings; README.md explains them. Next:")
    events = _SAMPLES.get(sample, _ORDERS)["FIRST_EVENTS"]
    steps = _STARTS.get(data) or ("pytest", "anabranch up", events, "anabranch down")
    for step in (f"cd {folder}", "anabranch setup", *steps):
        typer.echo(f"  {step}")


def _asked() -> str:
    typer.echo("What do you have? A topic that producers fill, a file of events, an HTTP client, or none of these yet.")
    while (answer := typer.prompt(f"  {', '.join(_STARTS)}", default="none")) not in _STARTS:
        pass
    return str(answer)


def make_project(folder: Path, sample: str = "") -> None:
    """Copies the template to ``folder``; with a ``sample``, with its contracts and views instead of the template's."""
    shutil.copytree(_TEMPLATE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    placeholders = {"PROJECT_NAME": folder.name, **_SAMPLES.get(sample, _ORDERS)}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.endswith(".template"):  # so that the package's own tools don't read the file
            name = path.name.removesuffix(".template").replace("dot_", ".", 1)
            path = path.rename(path.with_name(name))
        if path.is_file():
            text = path.read_text()
            for placeholder, content in placeholders.items():
                text = text.replace(placeholder, content)
            path.write_text(text)
    if sample:
        for part in ("spark_jobs", "tests", "data"):
            shutil.rmtree(folder / part)
        readme = folder / "README.md"
        readme.write_text("".join(s for s in readme.read_text().splitlines(True) if not s.startswith("| `data`")))
        for part in ("contracts", "views"):
            ignored = shutil.ignore_patterns("__pycache__", "gallery")
            shutil.copytree(_sample_folder() / part, folder / "spark_jobs" / part, ignore=ignored)
        (folder / "tests").mkdir()
        (folder / "tests" / "test_views.py").write_text(_SAMPLE_TEST)


def _sample_folder() -> Path:
    """The sample's folder in the installed package; in a checkout, ``spark_jobs``."""
    installed = Path(__file__).parents[1] / "sample"
    return installed if installed.is_dir() else Path(__file__).parents[4] / "spark_jobs"


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
