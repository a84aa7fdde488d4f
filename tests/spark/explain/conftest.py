"""The world of these tests: made once, each view served when a test first asks for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from anabranch.core.settings import load_settings
from anabranch.views import View
from support.explained_views import World, land, publish_batch, serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Serve = Callable[..., World]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return land(load_settings(home=Path(tmp_path_factory.mktemp("explaining")), shuffle_partitions=1))


@pytest.fixture(scope="session")
def serving(spark: SparkSession, world: World) -> Serve:
    """``batch``: its batch half as well, else the speed half alone."""
    done: set[tuple[str, bool]] = set()

    def once(view: View, *, batch: bool = False) -> World:
        if (view.name, False) not in done:
            serve(spark, world, view)
        if batch and (view.name, True) not in done:
            publish_batch(spark, world, view)
        done.update({(view.name, False), (view.name, batch)})
        return world

    return once
