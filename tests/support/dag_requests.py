"""Asking a running platform for DAG runs by Airflow's public REST API, while parts of it are killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any, TypeVar

from anabranch.apps.airflow.client import Client, Run
from anabranch.core.airflow_settings import airflow_address
from anabranch.core.errors import BrokenState, TryAgain
from anabranch.core.settings import Settings
from anabranch.operate.runtime.secret_files import airflow_login

_ANSWERS = 180.0
Made = TypeVar("Made")


class Asking:
    """A person at Airflow's UI, who loads the page again where nobody answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def ended(
        self,
        dag: str,
        conf: Mapping[str, Any],
        name: str,
        look: Callable[[Run], None] = lambda _: None,
        *,
        answer: str = "Approve",
        patience: float = 900.0,
    ) -> Run:
        """The run ``name`` of a DAG, as it is when it has ended, or after ``patience`` seconds. ``look`` sees it every
        second; what it asks is answered with ``answer``."""
        until = time.monotonic() + patience
        run = self.again(lambda: self.client.trigger(dag, conf, run_id=name))
        while not run.finished and time.monotonic() < until:
            if run.tasks.get("approve") == "awaiting_input":
                self._answer(run, answer)
            look(run)
            time.sleep(1)
            run = self.again(lambda: self.client.run(dag, name))
        return run

    def backfill(self, dag: str, days: Sequence[date], *, patience: float = 900.0) -> dict[date, Run]:
        """Airflow's own, over neighbouring days that had none before: the run of each of them, when all have ended, or
        after ``patience`` seconds."""
        until = time.monotonic() + patience
        known = {each["id"] for each in self.again(lambda: self._backfills(dag))}
        span = {"from_date": f"{days[0]}T00:00:00Z", "to_date": f"{days[-1]}T00:00:00Z"}

        def begin() -> None:
            # Not keyed: one whose answer got lost is there all the same.
            if all(each["id"] in known for each in self._backfills(dag)):
                self.client.post("/backfills", {"dag_id": dag, **span, "max_active_runs": 1})

        self.again(begin)
        while True:
            runs = self.again(lambda: self._of_days(dag, days))
            if time.monotonic() > until or (len(runs) == len(days) and all(run.finished for run in runs.values())):
                return runs
            for run in runs.values():
                if run.tasks.get("approve") == "awaiting_input":
                    self._answer(run, "Approve")
            time.sleep(1)

    def _backfills(self, dag: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get(f"/backfills?dag_id={dag}")["backfills"]
        return found

    def _of_days(self, dag: str, days: Sequence[date]) -> dict[date, Run]:
        made = self.client.get(f"/dags/{dag}/dagRuns?run_type=backfill&limit=100")["dag_runs"]
        keys = {date.fromisoformat(each["partition_key"][:10]): each["dag_run_id"] for each in made}
        return {day: self.client.run(dag, keys[day]) for day in days if day in keys}

    def again(self, call: Callable[[], Made]) -> Made:
        """What ``call`` gives, as soon as somebody answers it."""
        until = time.monotonic() + _ANSWERS
        while True:
            try:
                return call()
            except TryAgain:
                if time.monotonic() > until:
                    raise
            time.sleep(1)

    def _answer(self, run: Run, answer: str) -> None:
        try:
            self.again(lambda: self.client.respond(run, "approve", answer))
        except BrokenState as refused:  # the answer to the answer got lost
            if refused.code != "AIRFLOW_REFUSED":
                raise


@contextmanager
def asking(settings: Settings) -> Iterator[Asking]:
    with Client(airflow_address(settings), airflow_login(settings)) as client:
        yield Asking(client)
