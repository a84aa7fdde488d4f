"""The demo's third act: topics that others have filled, in plain JSON and in Avro, become a certified view."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from anabranch.core.errors import BrokenState

from anabranch_samples.demo._second_act import Voice

if TYPE_CHECKING:
    from anabranch.contracts import Topic
    from anabranch.core.settings import Settings
    from anabranch.ingest.landing.audit.verify import Proof
    from anabranch.views.model.handle import ViewHandle
    from pyspark.sql import SparkSession

    from anabranch_samples.demo._shop_sender import Sold

SHOP: Final = Path(__file__).parent / "shop"
VIEW: Final = "takings"


def third_act(
    settings: Settings, story: Voice, show: Callable[[Proof], None], spark: SparkSession | None = None
) -> None:
    """Runs the third act against the running broker, in a home of its own below the demo's. ``spark``: an engine that
    is there already, and stays. Raises BrokenState DEMO_DIFFERS if the view isn't what the sender sent."""
    from anabranch.contracts import load_declarations
    from anabranch.ingest.kafka.client import client_config
    from anabranch.views import load_views

    from anabranch_samples.demo._shop_sender import send_sales

    own = settings.model_copy(update={"home": settings.home / "shop", "project": _project(settings.home)})
    declared = load_declarations(own.contracts_folder)
    registry = load_views(own.views_folder, declared)
    story.say("\n[bold]10. Your own data[/]: two topics of other teams, one in plain JSON, one in Avro")
    with story.step("their producers send, and know nothing of this platform"):
        sold = send_sales(client_config(own, {}, {}))
    with _engine(own, spark) as engine:
        for name, topic in declared.topics.items():
            with story.step(f"{name} is landed: {sold.records[name]:,} records in {type(topic.records).__name__}"):
                proof = _landed(engine, own, topic)
            show(proof)
            for kind, count in sorted(_reasons(own, topic).items()):
                story.quote([f"in quarantine: {count} for {kind}"])
        with story.step(f"the view {VIEW} as a stream, as batch, and both compared"):
            equal = _certified(engine, registry.handle(own, registry.get(VIEW)))
    story.say(f"   certificates: [bold]{equal} of {equal} equal[/]; money is exact from the record to the view:")
    _compare(own, story, sold)


def _project(home: Path) -> Path:
    """A project with the shop's contracts and view. Their files are no Python files in this package, so that its tools
    don't take them for its own."""
    folder = home / "shop-project"
    shutil.copytree(SHOP, folder / "spark_jobs", dirs_exist_ok=True)
    for file in folder.rglob("*.template"):
        file.rename(file.with_suffix(""))
    (folder / "pyproject.toml").write_text("[tool.anabranch]\n")
    return folder


@contextmanager
def _engine(settings: Settings, spark: SparkSession | None) -> Iterator[SparkSession]:
    if spark is not None:
        yield spark
        return
    from anabranch.core.engine.lifetime import engine

    with engine(settings, "anabranch-demo") as own:
        yield own


def _landed(spark: SparkSession, settings: Settings, topic: Topic) -> Proof:
    from anabranch.ingest.landing.audit.verify import verify
    from anabranch.ingest.landing.stream import start

    query = start(spark, settings, topic, once=True)
    query.awaitTermination()
    if query.failure is not None and query.exception() is not None:
        raise query.failure
    return verify(settings, topic)


def _reasons(settings: Settings, topic: Topic) -> Counter[str]:
    from anabranch.ingest.landing.audit.quarantine import list_quarantined

    return Counter(record.reason for record in list_quarantined(settings, topic))


def _certified(spark: SparkSession, view: ViewHandle) -> int:
    """Stream, batch, certificates and publication; the number of days, all of them equal."""
    from anabranch.certify.reconciliation import reconcile
    from anabranch.compute.batch.publish import publish
    from anabranch.compute.batch.rebuild import rebuild
    from anabranch.compute.speed.view_stream import catch_up

    from anabranch_samples.demo._shop_sender import DAYS, FIRST

    catch_up(spark, view)
    days = [(FIRST + timedelta(days=n)).date() for n in range(DAYS)]
    build = rebuild(spark, view, days, "shop")
    verdict = reconcile(spark, view, "shop", build)
    if verdict.refused:
        raise _differs(f"not equal: {verdict.refused}")
    publish(view, build, days)
    return len(verdict.equal)


def _compare(settings: Settings, story: Voice, sold: Sold) -> None:
    from anabranch.serve import read

    rows: list[dict[str, Any]] = read(VIEW, settings=settings).to_arrow().sort_by("day").to_pylist()
    served = {(row["day"], row["city"]): (row["money"], row["sales"]) for row in rows}
    if served != (sent := {key: (sold.money[key], sold.sales[key]) for key in sold.money}):
        raise _differs(f"served {served}, sent {sent}")
    story.quote([f"{day}  {city:<5} {money:>12} {sales:>4} sales" for (day, city), (money, sales) in served.items()])
    total = sum(money for money, _ in served.values())
    story.say(f"   [green]✓[/] {total} in {sum(n for _, n in served.values()):,} sales: to the cent what was sent")


def _differs(what: str) -> BrokenState:
    return BrokenState("DEMO_DIFFERS", what, next_step="this is a fault of the platform: keep the home, and report it")
