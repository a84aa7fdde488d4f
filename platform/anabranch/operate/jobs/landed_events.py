"""Tells Airflow that records have landed, by an event of the topic's asset, so that DAGs can wait for a topic.

At most one event for each topic in five minutes, however often it lands, and however often this process starts. A topic
that no DAG waits for has no asset in Airflow, and gets no event. Nothing else depends on these events.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from anabranch.core.airflow_settings import airflow_api, passwords_file
from anabranch.core.control_file import ControlFile
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit

log = logging.getLogger(__name__)
EVERY_SECONDS = 300.0
LOOK_SECONDS = 30.0
_ANSWER_SECONDS = 10.0

Post = Callable[[Settings, str, int], bool]
"""Posts the event of a topic's epoch. Returns False if no DAG waits for the topic."""


def asset_uri(topic: str) -> str:
    return f"anabranch://topics/{topic}"


@dataclass(frozen=True, slots=True)
class Posted:
    """The newest event of a topic: its epoch, and when it was posted (Unix seconds)."""

    epoch: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class PostedTopics:
    topics: Mapping[str, Posted] = field(default_factory=dict, hash=False)


POSTED: Final = ControlFile("record of posted events", PostedTopics)


class LandedEvents:
    """What has been posted for each topic. It survives a restart, in a file."""

    def __init__(self, settings: Settings, post: Post, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._post = post
        self._clock = clock
        self._file = settings.home / "control" / "landed_events.json"

    def look(self) -> None:
        """Posts an event for each topic that has landed more, if its last one is five minutes old."""
        posted, now = self._posted(), self._clock()
        for folder in sorted((self._settings.lake / "landing").glob("*/")):
            topic = folder.name
            if (committed := latest_commit(str(folder))) is None:
                continue
            epoch, last = committed.note.cut.epoch(topic), posted.get(topic, Posted())
            waits = 0 <= now - last.at < EVERY_SECONDS  # a clock that was set back waits for nothing
            if epoch > last.epoch and not waits and self._post(self._settings, topic, epoch):
                posted[topic] = Posted(epoch, now)
                POSTED.write(self._file, PostedTopics(posted))

    def _posted(self) -> dict[str, Posted]:
        try:
            found = POSTED.read(self._file)
        except (OSError, ValueError):
            return {}
        return dict(found.topics) if found is not None else {}


def start_posting(settings: Settings) -> None:
    """Looks every half minute, in a thread of its own, as long as this process lives."""
    events = LandedEvents(settings, post_event)

    def run() -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            try:
                events.look()
            except Exception as error:  # a table that is being made, an Airflow that is away: landing goes on
                log.debug("no event was posted: %s", error)

    threading.Thread(target=run, name="landed events", daemon=True).start()


def post_event(settings: Settings, topic: str, epoch: int) -> bool:
    """Posts an event by Airflow's REST API. Raises OSError or ValueError if Airflow doesn't answer as expected."""
    if not passwords_file(settings).exists():  # Airflow was never started here
        return False
    address = airflow_api(settings)
    login = {"username": "admin", "password": json.loads(passwords_file(settings).read_text())["admin"]}
    token = _answer(f"{address}/auth/token", login, {})["access_token"]
    header = {"Authorization": f"Bearer {token}"}
    pattern = quote(asset_uri(topic), safe="")
    found = _answer(f"{address}/api/v2/assets?uri_pattern={pattern}&limit=100", None, header)["assets"]
    known = next((each["id"] for each in found if each["uri"] == asset_uri(topic)), None)
    if known is None:
        return False
    _answer(f"{address}/api/v2/assets/events", {"asset_id": known, "extra": {"topic": topic, "epoch": epoch}}, header)
    log.info("%s@%d: told DAGs that wait for the topic", topic, epoch)
    return True


def _answer(url: str, body: Any, header: dict[str, str]) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **header})  # noqa: S310
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
        return json.load(answer)
