"""Promotion checks: what must hold before readers move to a version, and while they move. Failures are texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from anabranch.certify.breaking_changes import breaking_changes, undeclared_text
from anabranch.certify.certificates import certified_partitions, newest_certificates
from anabranch.certify.compare_versions import compare_versions
from anabranch.compute.batch.publish import publications
from anabranch.core.errors import AnabranchError, BadInput, Conflict, TryAgain, root_cause
from anabranch.core.settings import Settings
from anabranch.lake.layout import VersionRef
from anabranch.serve import read_untracked
from anabranch.serve.reader_log import failed_reads
from anabranch.views import View

_SHOWN = 3
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the author of the new version expects: only ``changed`` columns differ from the old version, or are removed
    (not compared if ``compared`` is false), every row fulfils each of ``checks`` (SQL predicates), and both versions
    are at most ``behind`` epochs behind landing."""

    changed: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    behind: int = 30
    compared: bool = True


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """``failed``: a text for each failed check. ``not_run``: the errors of checks that can't run now."""

    failed: tuple[str, ...]
    not_run: tuple[TryAgain, ...] = ()


def failed_checks(settings: Settings, old: View, new: View, promise: Expectations) -> list[str]:
    """Run all checks for a version without readers, and return the failures.

    Raises BadInput CHECK_REFUSED when a check is no predicate over the new version's columns; TryAgain when a check
    can't run now.
    """
    undeclared = _undeclared_breaking(settings, old, new, promise)
    outcome = run_checks(settings, old, new, promise, thorough=True, broken=False)
    if outcome.not_run:
        raise outcome.not_run[0]
    return [*([undeclared] if undeclared else []), *outcome.failed]


def not_ready(settings: Settings, old: View, new: View, failed: Sequence[str]) -> Conflict:
    """Return the error CHECKS_FAILED, with what would make the checks pass."""
    lacking = uncertified(settings, old, new)
    days = sorted({*days_to_build(settings, old, new), *(day for day in lacking if day is not None)})
    todo = []
    if days:
        many, verb = (f"{len(days)} days", "are") if len(days) > 1 else ("1 day", "is")
        todo.append(
            f"build {many} of v{new.version} that {verb}n't published and certified: anabranch reprocess {old.name} "
            f"--version {new.version} --from {days[0]} --to {days[-1]} (the DAG migrate does that by itself)"
        )
    if None in lacking:
        todo.append(f"certify v{new.version} as a whole: anabranch certify {old.name} --version {new.version}")
    if not lacking or len(failed) > 1:  # not only certificates are missing
        todo.append("fix it, or declare the columns that are meant to differ or to go as changed (--changed COLUMN)")
    return Conflict(
        "CHECKS_FAILED",
        f"{old.name} v{new.version} can't take readers: {'; '.join(failed)}",
        state="nothing was changed; all readers have the old version",
        next_step="; then ".join(todo),
        failed=tuple(failed),
        days=[str(day) for day in days],
    )


def check_declared(settings: Settings, old: View, new: View, promise: Expectations) -> None:
    """Raise Conflict CHECKS_FAILED if the new version takes something away from readers that nobody declared. Reads no
    rows, so it comes before anything is built."""
    undeclared = _undeclared_breaking(settings, old, new, promise)
    if undeclared:
        raise Conflict(
            "CHECKS_FAILED",
            f"{new.name} v{new.version} can't take readers: {undeclared}",
            state="nothing was changed; all readers have the old version",
            next_step="keep these columns, or declare them as changed columns (--changed COLUMN), then start again",
            failed=(undeclared,),
        )


def _undeclared_breaking(settings: Settings, old: View, new: View, promise: Expectations) -> str:
    """Return a sentence about what the new version takes away from readers and nobody declared; "" if nothing.

    Checked before readers are moved only: the columns of a version never change afterwards.
    """
    if not promise.compared:
        return ""
    breaking = breaking_changes(settings, old.name, old.version, new.version)
    return undeclared_text(old.version, new.version, breaking, promise.changed)


def run_checks(
    settings: Settings,
    old: View,
    new: View,
    promise: Expectations,
    *,
    thorough: bool,
    since: int | None = None,
    certified: int | None = None,
    broken: bool = True,
) -> CheckOutcome:
    """Run each check separately, so that one that can't run doesn't hide the others.

    Without ``thorough``, runs only the checks that read no rows: certificates, how far behind both versions are, and
    failed reads of the new version that route number ``since`` or a newer one sent there. ``certified``: the newest
    certificate's sequence number when the migration began; the new version need not have certificates of partitions
    that the old one has certified since (None: it needs all). ``broken``: a missing or corrupt table counts as a failed
    check; otherwise its error is raised.
    """
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: _check_certificates(settings, old, new, certified),
        lambda: _check_behind(settings, old, new, promise),
    ]
    if since is not None:
        checks.append(lambda: _check_failed_reads(settings, new, since))
    if thorough:
        checks += [
            lambda: _check_predicates(settings, new, promise),
            lambda: _check_differences(settings, old, new, promise),
        ]
    failed: list[str] = []
    not_run: list[TryAgain] = []
    for check in checks:
        try:
            failed += check()
        except TryAgain as wait:
            not_run.append(wait)
        except AnabranchError as error:
            if not broken:
                raise
            failed.append(f"a check can't run: {error.what}")
        except Exception as error:  # else it would end whatever runs the migration, and nobody would roll back
            log.exception("a check of %s v%s ended with an error", new.name, new.version)
            not_run.append(_not_run(new, error))
    return CheckOutcome(tuple(dict.fromkeys(failed)), tuple(not_run))


def _not_run(new: View, error: Exception) -> TryAgain:
    wait = TryAgain(
        "CHECK_NOT_RUN",
        f"a check of {new.name} v{new.version} ended with {type(error).__name__}: {root_cause(error)}",
        state="no reader was moved; the other checks were run",
        next_step="the check is repeated; its log has the whole error",
    )
    wait.__cause__ = error
    return wait


def _check_certificates(settings: Settings, old: View, new: View, until: int | None) -> Iterator[str]:
    known = {view.version: newest_certificates(VersionRef(settings, view.name, view.version)) for view in (old, new)}
    for version, certificates in known.items():
        unequal = [str(day or "the whole view") for day, each in certificates.items() if not each.equal]
        if unequal:
            yield f"the paths of v{version} differ on {_listed(unequal)}"
    wanted = certified_partitions(VersionRef(settings, old.name, old.version), until)
    missing = [str(day or "the whole view") for day in known[old.version] if day in wanted - known[new.version].keys()]
    if missing:
        yield f"v{new.version} has no certificate of {_listed(missing)}, but v{old.version} has"


def uncertified(settings: Settings, old: View, new: View) -> list[date | None]:
    """Return the partitions of which the old version has a certificate and the new one has none; None: the whole
    view."""
    known = newest_certificates(VersionRef(settings, new.name, new.version))
    return [day for day in newest_certificates(VersionRef(settings, old.name, old.version)) if day not in known]


def days_to_build(settings: Settings, old: View, new: View) -> list[date]:
    """Return the published days of the old version that the new version hasn't published, or not certified as equal."""
    if new.kappa:
        return []
    built = VersionRef(settings, new.name, new.version)
    published, certified = publications(built.batch_table), newest_certificates(built)
    wanted = publications(VersionRef(settings, old.name, old.version).batch_table)
    return sorted(day for day in wanted if day not in published or day not in certified or not certified[day].equal)


def epochs_behind(ref: VersionRef) -> int:
    """Return how many landed epochs this version doesn't cover yet. Raises BadInput VIEW_UNKNOWN or TryAgain
    VIEW_NOT_READY before its stream's first commit."""
    return read_untracked(ref.settings, ref.name, ref.version).freshness.behind


def _check_behind(settings: Settings, old: View, new: View, promise: Expectations) -> Iterator[str]:
    for view in (old, new):
        epochs = epochs_behind(VersionRef(settings, view.name, view.version))
        if epochs > promise.behind:
            yield f"v{view.version} is {epochs} epochs behind landing, more than {promise.behind}"


def _check_failed_reads(settings: Settings, new: View, since: int) -> Iterator[str]:
    failed = failed_reads(VersionRef(settings, new.name, new.version), since)
    if failed:
        readers = _listed([f"{each.reader} [{each.code}, {each.engine}]" for each in failed])
        yield f"{sum(each.count for each in failed)} reads of v{new.version} failed: {readers}"


def _check_predicates(settings: Settings, new: View, promise: Expectations) -> Iterator[str]:
    for check in promise.checks:
        try:
            # As an argument: "a) AND (FALSE" would close the brackets of NOT (...), and never fail.
            broken = f"coalesce((\n{check}\n), TRUE) = FALSE"
            rows = read_untracked(settings, new.name, new.version, where=broken).to_arrow().num_rows
        except BadInput as error:
            raise BadInput(
                "CHECK_REFUSED", f"check {check!r}: {error.what}", next_step=error.next_step, field="checks"
            ) from None
        if rows:
            yield f"{rows:,} rows of v{new.version} break {check}"


def _check_differences(settings: Settings, old: View, new: View, promise: Expectations) -> Iterator[str]:
    if not promise.compared:
        return
    comparison = compare_versions(settings, old, new, promise.changed)
    if comparison.unexpected:
        columns = sorted({name for each in comparison.partitions for name in each.cells} - comparison.changed)
        unmatched = sum(each.only_old + each.only_new for each in comparison.partitions)
        what = [*([f"in {', '.join(columns)}"] if columns else []), *([f"by {unmatched:,} rows"] if unmatched else [])]
        days = _listed([str(day or "the whole view") for day in comparison.unexpected])
        yield f"v{old.version} and v{new.version} differ {' and '.join(what)} on {days} at {comparison.cut}"


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
