"""``anabranch upgrade``: what older versions have written, in the formats of this one."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(upgrade)


def upgrade(
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be done, and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Bring everything on disk to the formats of this version, while nothing runs. A newer format is refused."""
    from anabranch.core.settings import load_settings
    from anabranch.operate.upgrade import apply_upgrade, plan_upgrade
    from anabranch.views.project import Project

    settings = load_settings()
    declared = Project(settings).declarations()
    found = plan_upgrade(settings, declared) if plan else apply_upgrade(settings, declared)
    typer.echo(json.dumps(found.to_json()) if as_json else str(found))
