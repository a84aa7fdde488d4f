"""The views as Airflow assets, so that other DAGs can wait until days of a view are published.

``VIEW`` gets one event for each publication, with all its days, for ``schedule=[Asset(...)]``. ``VIEW_by_day`` gets an
event for each day, with the day as partition key, for partition-aware DAGs. Airflow starts a DAG by one kind only.

Not an event for each day without a key: of several that come before the scheduler has looked, a run takes the first one
only, and the others wait for the next event (Airflow 3.3.2).

The events are posted by REST: a task's own would be lost when it fails because some days are held back, and those of a
scheduled run would all carry the partition key of that run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import Asset

from anabranch.core.errors import AnabranchError
from anabranch.core.settings import Settings

if TYPE_CHECKING:
    from anabranch.apps.airflow.client import Client

log = logging.getLogger(__name__)
TRIES, PAUSE_SECONDS = 3, 5.0
_PAGE = 100
"""How many events Airflow gives at most with one answer."""


def view_assets(view: str) -> list[Asset]:
    """Returns the asset of the view, and the one whose events are keyed by day."""
    uri = f"anabranch://views/{view}"
    return [Asset(view, uri, group="anabranch"), Asset(f"{view}_by_day", f"{uri}/by-day", group="anabranch")]


def announce(
    settings: Settings,
    view: str,
    days: Sequence[str | None],
    facts: Mapping[str, Any],
    since: datetime | None = None,
) -> None:
    """Posts the events of a publication to both assets. ``facts`` go into their ``extra``; they name the run.

    A day of None stands for the whole view, which has no key. A repeat posts what is missing: it looks at the assets'
    events back to ``since``, a time before the run's first one that clearing doesn't change (its ``run_after``).
    Nothing that the platform promises depends on it, so a failure is only logged.
    """
    for left in reversed(range(TRIES)):
        try:
            with _client(settings) as client:
                for asset in view_assets(view):
                    _post_missing(client, asset, days, facts, since)
            return
        except (AnabranchError, OSError, KeyError, ValueError) as error:
            log.warning("%s: DAGs that wait for it were not told of %d days: %s", view, len(days), error)
        if left:
            time.sleep(PAUSE_SECONDS)


def _post_missing(
    client: Client, asset: Asset, days: Sequence[str | None], facts: Mapping[str, Any], since: datetime | None
) -> None:
    known = _known(client, asset)
    if known is None:
        return
    number = known["id"]
    posted = set[str | None]()
    for event in _newest_first(client, number, since):
        posted.update(_days_of(event) if event["extra"].get("run") == facts["run"] else ())
        if posted.issuperset(days):
            break
    missing = [day for day in days if day not in posted]
    dated = [day for day in missing if day]
    events: list[dict[str, Any]] = []
    if asset.name.endswith("_by_day"):
        events = [{"extra": {**facts, "partitions": [day]}, "partition_key": day} for day in dated]
    elif missing:
        events = [{"extra": {**facts, "partitions": dated}}]
    for event in events:
        client.post("/assets/events", {"asset_id": number, **event})


def _newest_first(client: Client, number: int, since: datetime | None) -> Iterator[dict[str, Any]]:
    """The events of an asset, page by page: a run that published a year has posted more than one."""
    query = f"/assets/events?asset_id={number}&order_by=-timestamp&limit={_PAGE}"
    query += f"&timestamp_gte={quote(since.isoformat(), safe='')}" if since is not None else ""
    offset = 0
    while True:
        page = client.get(f"{query}&offset={offset}")
        yield from page["asset_events"]
        offset += len(page["asset_events"])
        if not page["asset_events"] or offset >= page["total_entries"]:
            return


def _days_of(event: Mapping[str, Any]) -> Sequence[str | None]:
    """The days that an event has told of; that of a whole view has none."""
    return event["extra"].get("partitions") or [None]


def downstream_dags(settings: Settings, view: str) -> list[str]:
    """Returns the DAGs that wait for the view; none if that can't be found out."""
    try:
        with _client(settings) as client:
            known = [_known(client, asset) for asset in view_assets(view)]
    except (AnabranchError, OSError, KeyError, ValueError) as error:
        log.warning("which DAGs wait for %s is unknown: %s", view, error)
        return []
    return sorted({dag["dag_id"] for asset in known if asset for dag in asset["scheduled_dags"]})


def _known(client: Client, asset: Asset) -> dict[str, Any] | None:
    """Airflow's record of the asset; None if no DAG names it."""
    found: list[dict[str, Any]] = client.get(f"/assets?uri_pattern={quote(asset.uri, safe='')}&limit=100")["assets"]
    return next((each for each in found if each["uri"] == asset.uri), None)


def _client(settings: Settings) -> Client:
    from anabranch.apps.airflow._reprocess_tasks import api_address
    from anabranch.apps.airflow.client import Client
    from anabranch.operate.runtime.secret_files import airflow_login

    return Client(api_address(settings), airflow_login(settings))
