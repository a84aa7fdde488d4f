"""Queries of the demo's first act to a running platform: progress, proofs, a reprocess, the oracle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

from anabranch.apps.airflow.client import Client, Run
from anabranch.certify.verdict import Verdict, read_verdict
from anabranch.contracts import Topic, load_declarations
from anabranch.core.airflow_settings import airflow_api
from anabranch.core.errors import BrokenState
from anabranch.core.settings import Settings
from anabranch.ingest.kafka.admin import readable_ends
from anabranch.ingest.landing.audit.verify import Proof, verify
from anabranch.lake import latest_commit
from anabranch.lake.layout import VersionRef, landing_table
from anabranch.operate.runtime.secret_files import airflow_login

from anabranch_samples.oracle import Agreement
from anabranch_samples.oracle_check import compare_with_oracle, oracle_of

Tell = Callable[[str], None]
FLIGHTS = "flights"


def topics(settings: Settings) -> list[Topic]:
    return list(load_declarations(settings.contracts_folder).topics.values())


def landed_everything(settings: Settings, tell: Tell) -> bool:
    """Whether every topic has landed to its end. Reports the progress."""
    done, texts = True, []
    for topic in topics(settings):
        committed = latest_commit(landing_table(settings, topic.name))
        landed = committed.note.cut.positions[topic.name].offsets if committed else {}
        end = readable_ends(settings, topic.in_kafka)
        total, so_far = sum(end.values()), sum(landed.values())
        epoch = committed.note.cut.epoch(topic.name) if committed else 0
        texts.append(f"{topic.name} {so_far:,}/{total:,} (epoch {epoch})")
        done = done and so_far == total
    tell(", ".join(texts))
    return done


def landing_proofs(settings: Settings) -> list[Proof]:
    """Returns the proof for each topic that nothing is missing and nothing landed twice."""
    return [verify(settings, topic) for topic in topics(settings)]


def speed_at(settings: Settings, view: str, tell: Tell) -> bool:
    """Whether version 1 of a view covers everything that has landed. Reports the progress."""
    landed = latest_commit(landing_table(settings, FLIGHTS))
    committed = latest_commit(VersionRef(settings, view, 1).speed_table)
    tell(f"{view} at {committed.note.cut if committed else 'nothing'} of {landed.note.cut if landed else 'nothing'}")
    return bool(committed and landed and committed.note.cut.covers(landed.note.cut))


def reprocess(settings: Settings, view: str, first: date, last: date, tell: Tell) -> tuple[Run, Verdict]:
    """Triggers the view's DAG as the UI does, waits for it, and returns the run and the verdict on its build."""
    with Client(airflow_api(settings), airflow_login(settings)) as client:
        run = client.trigger(f"reprocess_{view}", {"from": first.isoformat(), "to": last.isoformat()})
        run = client.wait(run, lambda now: tell(", ".join(f"{t} {s or 'waiting'}" for t, s in now.tasks.items())))
        if run.state != "success":
            failed = [name for name, state in run.tasks.items() if state == "failed"]
            raise BrokenState(
                "DEMO_RUN_FAILED", f"{run.dag_id} failed in {failed}: {run.note}", next_step=f"read {settings.logs}"
            )
        return run, read_verdict(VersionRef(settings, view, 1), client.xcom(run, "plan", "run"))


def check_oracle(settings: Settings, view: str, file: Path) -> tuple[str, Agreement, dict[date, int]]:
    """Compares every served row of ``view`` with DuckDB's result over the producer's file."""
    topic = next(t for t in topics(settings) if t.name == FLIGHTS)
    late = oracle_of(settings, topic, file).late_by_day()
    return view, compare_with_oracle(settings, view, topic, file), late
