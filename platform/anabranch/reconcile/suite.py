"""The platform's suite in Great Expectations: landing and both halves, with Data Docs that one can open.

Each run has its own site below ``data_docs/``, so runs beside each other don't meet; ``data_docs/index.html``
lists them. Great Expectations is imported inside functions only.
"""

from __future__ import annotations

import html
import logging
import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import BadInput
from anabranch.files import write_whole
from anabranch.reconcile.checks import FailedCheck
from anabranch.settings import SAFE_NAME, Settings
from anabranch.views.definition import PARTITION, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SITE = "anabranch"


@dataclass(frozen=True, slots=True)
class Subject:
    """A table to check, and what is expected of it (expectations of Great Expectations)."""

    table: str
    rows: DataFrame = field(hash=False)
    expectations: Sequence[Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """Which checks failed where, how many there were, and the page that shows them."""

    failed: tuple[FailedCheck, ...]
    checks: int
    page: Path

    def failed_in(self, partition: date | None) -> list[FailedCheck]:
        """The failures that concern ``partition``: its own, and those that can't be told a partition."""
        return [f for f in self.failed if f.partition in (partition, None)]


def great_expectations() -> Any:
    """The library, quiet: it prints, counts its users and shows progress bars otherwise."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    os.environ["TQDM_DISABLE"] = "1"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports modules of Python that are deprecated
        import great_expectations as gx

        import anabranch.reconcile.expectations  # noqa: F401 - registers our own with it
    return gx


def load_ahead() -> None:
    """Import the library, which takes 3 s, beside what the caller does next: until then Spark may have started."""
    threading.Thread(target=great_expectations, name="great-expectations", daemon=True).start()


def run_suite(settings: Settings, view: View, run: str, subjects: Sequence[Subject]) -> SuiteResult:
    """Check every subject and write the Data Docs of this run. A check that breaks counts as failed.

    Repeating it for the same run replaces that run's pages.
    """
    gx = great_expectations()
    folder = docs_folder(settings, view, run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = _context(gx, folder)
        source = context.data_sources.add_spark("spark")
        failed: list[FailedCheck] = []
        for subject in subjects:
            failed += _check(gx, context, source, subject)
        context.build_data_docs()
    write_index(settings)
    return SuiteResult(tuple(failed), sum(len(s.expectations) for s in subjects), folder / "index.html")


def docs_folder(settings: Settings, view: View, run: str) -> Path:
    """Where the Data Docs of a run are; a run's name is made of letters, digits, ``-``, ``_`` and ``.`` only."""
    if not run or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in run) or run.startswith("."):
        raise BadInput("RUN_UNSAFE", f"{run!r} is no name of a run", next_step="use letters, digits, - and _")
    return settings.home / "data_docs" / view.name / f"v{view.version}" / run


def write_index(settings: Settings) -> Path:
    """The page that lists every run's Data Docs, newest first."""
    root = settings.home / "data_docs"
    pages = sorted(root.glob("*/v*/*/index.html"), key=lambda page: page.stat().st_mtime, reverse=True)
    lines = [
        f'<li><a href="{html.escape(str(page.relative_to(root)))}">{html.escape(" ".join(page.parts[-4:-1]))}</a></li>'
        for page in pages
        if SAFE_NAME.fullmatch(page.parts[-4])
    ]
    body = "<!doctype html><meta charset='utf-8'><title>Data Docs</title><h1>Data Docs, by run</h1>"
    return write_whole(root / "index.html", f"{body}<ul>{''.join(lines)}</ul>\n")


def _context(gx: Any, folder: Path) -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    for name in context.get_site_names():
        context.delete_data_docs_site(name)
    store = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}
    index = {"class_name": "DefaultSiteIndexBuilder"}
    context.add_data_docs_site(
        _SITE, {"class_name": "SiteBuilder", "store_backend": store, "site_index_builder": index}
    )
    return context


def _check(gx: Any, context: Any, source: Any, subject: Subject) -> list[FailedCheck]:
    batch = source.add_dataframe_asset(subject.table).add_batch_definition_whole_dataframe("all")
    suite = context.suites.add(gx.ExpectationSuite(subject.table))
    for expectation in subject.expectations:
        suite.add_expectation(expectation)
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=subject.table, data=batch, suite=suite)
    )
    result = definition.run(batch_parameters={"dataframe": subject.rows}, result_format="COMPLETE")
    return [failure for outcome in result.results if not outcome.success for failure in _failures(subject, outcome)]


def _failures(subject: Subject, outcome: Any) -> list[FailedCheck]:
    config = outcome.expectation_config
    name = (config.meta or {}).get("check") or f"{config.type}({config.kwargs.get('column', '')})"
    rows = outcome.result.get("details", {}).get("unexpected_rows") if outcome.result else None
    if rows:
        return [FailedCheck(name, subject.table, row[PARTITION], int(row["offending"])) for row in rows]
    return [FailedCheck(name, subject.table, None, int(outcome.result.get("unexpected_count") or 0), _error(outcome))]


def _error(outcome: Any) -> str:
    """The message of a check that broke, however deep the library has put it."""
    found = [outcome.exception_info or {}]
    while found:
        info = found.pop()
        if info.get("exception_message"):
            return str(info["exception_message"])[:500]
        found += [value for value in info.values() if isinstance(value, dict)]
    return ""
