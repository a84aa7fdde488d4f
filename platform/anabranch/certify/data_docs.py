"""Data Docs: Great Expectations pages that show the result of each check of a run.

The checks have already run in one Spark job (``run_checks``). Great Expectations only renders their results, after the
publication, because its import alone takes seconds; it is imported inside functions only. Its pages would need a
network: ``_static_pages`` makes them do without. Each run has its own site below ``data_docs/``, so concurrent runs
don't collide; ``data_docs/index.html`` lists them.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from anabranch.certify._run_checks import CheckResult
from anabranch.certify._static_pages import make_static, write_listing, write_run_index
from anabranch.certify.verdict import Verdict
from anabranch.compute.batch.manifest import manifest_path
from anabranch.core.settings import SAFE_NAME, Settings
from anabranch.lake.layout import VersionRef

_SITE = "anabranch"


def write_documents(settings: Settings, verdict: Verdict) -> Path:
    """Write the Data Docs of a run and update the index of all runs. Idempotent: a repeat replaces the run's pages."""
    gx = great_expectations()
    from great_expectations.core import RunIdentifier

    folder = docs_folder(VersionRef(settings, verdict.view, verdict.version), verdict.run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = _context(gx, folder)
        run = RunIdentifier(run_name=verdict.run, run_time=verdict.created)
        for table, results in groupby(verdict.results, lambda result: result.table):
            _store_results(context, table, list(results), run)
        context.build_data_docs()
    for page in folder.rglob("*.html"):
        make_static(page)
    index = write_run_index(folder, verdict)
    write_index(settings)
    return index


def great_expectations() -> Any:
    """Import the library with its usage statistics, progress bars and log output turned off."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    os.environ["TQDM_DISABLE"] = "1"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports deprecated modules of Python
        import great_expectations as gx

        import anabranch.certify._expectations  # noqa: F401 - registers our expectation class
    return gx


def docs_folder(ref: VersionRef, run: str) -> Path:
    """Return the folder of a run's Data Docs. Raises BadInput for an invalid name."""
    name = manifest_path(ref, run).stem
    return ref.settings.home / "data_docs" / ref.name / f"v{ref.version}" / name


def write_index(settings: Settings) -> Path:
    """Write the page that lists the Data Docs of all runs, newest first."""
    root = settings.home / "data_docs"
    pages = {
        page: page.stat().st_mtime for page in root.glob("*/v*/*/index.html") if SAFE_NAME.fullmatch(page.parts[-4])
    }
    entries = [
        (
            str(page.relative_to(root)),
            f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC: {' '.join(page.parts[-4:-1])}",
        )
        for page, at in sorted(pages.items(), key=lambda found: found[1], reverse=True)
    ]
    return write_listing(root / "index.html", "Data Docs, by run", entries)


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


def _store_results(context: Any, table: str, results: Sequence[CheckResult], run: Any) -> None:
    """Store a suite and its results as Great Expectations would if it had run the checks itself."""
    import great_expectations as gx
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    from anabranch.certify._expectations import ExpectNoPartitionToOffend, outcome_of

    expected = [ExpectNoPartitionToOffend.of(result) for result in results]
    context.suites.add(gx.ExpectationSuite(table, expectations=expected))
    each = [
        ExpectationValidationResult(
            success=not result.failed, expectation_config=expectation.configuration, **outcome_of(result)
        )
        for expectation, result in zip(expected, results, strict=True)
    ]
    passed = sum(not result.failed for result in results)
    statistics = {
        "evaluated_expectations": len(each),
        "successful_expectations": passed,
        "unsuccessful_expectations": len(each) - passed,
        "success_percent": 100 * passed / len(each),
    }
    meta = {"great_expectations_version": gx.__version__, "run_id": run, "validation_time": run.run_time}
    suite = ExpectationSuiteValidationResult(
        success=passed == len(each), results=each, suite_name=table, statistics=statistics, meta=meta
    )
    key = ValidationResultIdentifier(ExpectationSuiteIdentifier(table), run, table)
    context.validation_results_store.store_validation_results(suite, key)
