"""DAG files are parsed again when what they are made from has changed, and only then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from anabranch.apps.airflow._dag_sources import sources
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve.retirement import retire
from anabranch.serve.routes import set_route
from support.small_platform import DAYS, NAME, V1, V2, Clinic, departed

pytestmark = pytest.mark.unit


def test_what_makes_other_dags_is_noticed_and_news_of_data_are_not(tmp_path: Path) -> None:
    clinic = Clinic(Settings(home=tmp_path / "home", project=tmp_path / "project"), (V1, V2))
    settings = clinic.settings
    settings.views_folder.mkdir(parents=True)
    clinic.land([departed(0)])
    seen = [tuple(sources(settings))]

    def changed() -> bool:
        seen.append(tuple(sources(settings)))
        return seen[-1] != seen[-2]

    assert not changed()
    file = settings.views_folder / "delays.py"
    file.write_text("VERSION = 1\n")
    assert changed(), "a view is declared"
    file.write_text("VERSION = 10\n")
    assert changed(), "a version is declared"
    for view in (V1, V2):
        clinic.speed(view=view)
        assert changed(), "a version has its table"
    clinic.land([departed(1)])
    for view in (V1, V2):
        clinic.speed(DAYS[:1], view)
    clinic.reprocess("one", DAYS[:1])
    assert not changed()
    for shares in ({1: 100}, {1: 50, 2: 50}, {2: 100}):
        set_route(settings, NAME, shares, by="anna", why="test")
        assert changed(), "readers move"
    retire(VersionRef(settings, NAME, 1), by="anna", why="test", grace=timedelta(0))
    assert changed(), "a version is retired"
    file.unlink()
    assert changed(), "a view is gone"
