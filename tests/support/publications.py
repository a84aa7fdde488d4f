"""Publications as processes of their own make them. Each prints what became of it in its last line, or the code of its
error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anabranch.change.publish_run import publish_run
from anabranch.change.replay.publish import publish_days, publish_whole
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings
from anabranch.views.model.handle import ViewHandle

from support.landed_sample import FLIGHTS
from support.small_platform import DAYS, V1

REPLAY = "again"


def of_run(settings: Settings, plan: dict[str, Any]) -> None:
    """Of a run that is built and certified."""
    _said(lambda: publish_run(settings, plan))


def of_replay(home: Path, whole: bool) -> None:
    """Of the replay ``REPLAY``, which is ready: of all days, or of the first two."""
    view = ViewHandle(Settings(home=home), V1, FLIGHTS)
    uri = str(view.replay_tables / REPLAY)

    def publish() -> str:
        publish_whole(view, REPLAY, uri) if whole else publish_days(view, REPLAY, uri, DAYS[:2])
        return "published"

    _said(publish)


def _said(publish: Callable[[], str | Mapping[str, Any]]) -> None:
    try:
        print(json.dumps(publish()))  # noqa: T201
    except AnabranchError as error:
        print(json.dumps(error.code))  # noqa: T201
