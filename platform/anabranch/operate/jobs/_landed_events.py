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
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.parse import quote

from anabranch.core.airflow_settings import airflow_api, on_this_machine, passwords_file
from anabranch.core.control_file import ControlFile
from anabranch.core.settings import Settings
from anabranch.lake import latest_commit
from anabranch.lake.layout import landing_table

log = logging.getLogger(__name__)
EVERY_SECONDS = 300.0
LOOK_SECONDS = 30.0
_ANSWER_SECONDS = 10.0
_MAX_ASSETS = 100  # as many as Airflow gives at once

_TOPICS = "anabranch://topics/"


class Assets(Protocol):
    """The topics' assets in Airflow."""

    def waited_for(self) -> Mapping[str, int]:
        """The topics that a DAG waits for, with the number of their asset."""

    def post(self, asset: int, topic: str, epoch: int) -> None:
        """Posts the event of a topic's epoch."""


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
    """What has been posted for each topic. It survives a restart, in a file; while that can't be written, this process
    knows it."""

    def __init__(self, settings: Settings, assets: Assets, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._assets = assets
        self._clock = clock
        self._file = settings.home / "control" / "landed_events.json"
        self._unwritten: dict[str, Posted] = {}

    def look(self) -> None:
        """Posts an event for each topic that a DAG waits for and that has landed more, if its last one is five minutes
        old. Opens no table of the others."""
        posted, now = self._posted(), self._clock()
        for topic, asset in self._assets.waited_for().items():
            last = posted.get(topic, Posted())
            if 0 <= now - last.at < EVERY_SECONDS:  # a clock that was set back waits for nothing
                continue
            committed = latest_commit(landing_table(self._settings, topic))
            if committed is not None and (epoch := committed.note.cut.epoch(topic)) > last.epoch:
                self._assets.post(asset, topic, epoch)
                posted[topic] = self._unwritten[topic] = Posted(epoch, now)
                POSTED.write(self._file, PostedTopics(posted))
                self._unwritten.clear()

    def _posted(self) -> dict[str, Posted]:
        try:
            found = POSTED.read(self._file)
        except (OSError, ValueError):
            found = None
        return (dict(found.topics) if found is not None else {}) | self._unwritten


def start_posting(settings: Settings) -> None:
    """Looks every half minute, in a thread of its own, as long as this process lives."""
    events = LandedEvents(settings, AirflowAssets(settings))

    def run() -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            try:
                events.look()
            except Exception as error:  # a table that is being made, an Airflow that is away: landing goes on
                log.debug("no event was posted: %s", error)

    threading.Thread(target=run, name="landed events", daemon=True).start()


class AirflowAssets:
    """Airflow's REST API. Its methods raise OSError or ValueError if Airflow doesn't answer as expected."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._token = ""

    def waited_for(self) -> dict[str, int]:
        if not passwords_file(self._settings).exists():  # Airflow was never started here
            return {}
        pattern = quote(_TOPICS, safe="")
        found = self._answer(f"/api/v2/assets?uri_pattern={pattern}&limit={_MAX_ASSETS}")["assets"]
        uris = {str(each["uri"]): int(each["id"]) for each in found}
        return {uri.removeprefix(_TOPICS): number for uri, number in uris.items() if uri.startswith(_TOPICS)}

    def post(self, asset: int, topic: str, epoch: int) -> None:
        self._answer("/api/v2/assets/events", {"asset_id": asset, "extra": {"topic": topic, "epoch": epoch}})
        log.info("%s@%d: told DAGs that wait for the topic", topic, epoch)

    def _answer(self, path: str, body: Any = None) -> Any:
        """Logs in if there is no login yet. One that Airflow refuses is forgotten: the next call has another."""
        if not self._token:
            login = {"username": "admin", "password": json.loads(passwords_file(self._settings).read_text())["admin"]}
            self._token = self._send("/auth/token", login)["access_token"]
        try:
            return self._send(path, body)
        except HTTPError:
            self._token = ""
            raise

    def _send(self, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        address = airflow_api(self._settings)
        request = urllib.request.Request(f"{address}{path}", data, headers)  # noqa: S310
        handlers = [urllib.request.ProxyHandler({})] if on_this_machine(address) else []
        with urllib.request.build_opener(*handlers).open(request, timeout=_ANSWER_SECONDS) as answer:
            return json.load(answer)
