"""The history of one partition: its runs and publications, what late events changed, and where its paths differ."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from anabranch.apps.web._certificate_cache import CertificateSummary, all_certificates
from anabranch.apps.web._days import Day, Halves, refusal, still_dirty, still_lacking, verdict_of
from anabranch.apps.web._dirty_days import DirtyStatus
from anabranch.apps.web._failures import Failure, attempt
from anabranch.certify.certificates import Certificate
from anabranch.certify.late_changes import LateChanges
from anabranch.certify.verdict import Verdict
from anabranch.core.settings import Settings
from anabranch.lake import commit_history
from anabranch.lake.cut import Cut
from anabranch.lake.layout import VersionRef

_COMMITS = 500
"""Maximum number of the batch table's newest commits that are searched."""
SHOWN = 200
"""Maximum number of certificates that are shown, newest first."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A commit that published this partition."""

    run: str
    cut: Cut
    at: datetime


@dataclass(frozen=True, slots=True)
class CertificateEntry:
    """A certificate, with the verdict of its run. ``differs``: the difference as that run stored it, with both values
    and the events behind them."""

    certificate: Certificate
    verdict: Verdict | None
    published: Publication | None
    refused: str
    changes: LateChanges | None
    differs: str


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """``judged``: newest first; ``more``: the number of older certificates that are not shown. ``publications``: newest
    first, also of runs without a certificate. ``failures``: what couldn't be read."""

    day: Day
    judged: tuple[CertificateEntry, ...]
    more: int
    publications: tuple[Publication, ...]
    dirty: DirtyStatus | None
    failures: tuple[Failure, ...]

    @property
    def uncertified(self) -> list[Publication]:
        known = {judged.certificate.run for judged in self.judged}
        return [publication for publication in self.publications if publication.run not in known]


def history_of(ref: VersionRef, partition: date | None, dirty: DirtyStatus | None) -> PartitionHistory | None:
    """Returns everything that is stored about a partition; None if there is nothing."""
    failures: list[Failure] = []
    halves = attempt("tables", lambda: Halves.of(ref))
    if isinstance(halves, Failure):
        failures.append(halves)
        halves = Halves(None, None, {})
    found = attempt("certificates", lambda: all_certificates(ref, partition))
    certificates = found if not isinstance(found, Failure) else []
    published_or_failure = attempt("publications", lambda: publications_of(ref, partition))
    publications = published_or_failure if not isinstance(published_or_failure, Failure) else []
    failures += [each for each in (found, published_or_failure) if isinstance(each, Failure)]
    serves = halves.serving().get(partition)
    lacking = still_lacking(dirty.found, partition, halves) if dirty else 0
    if not certificates and not publications and serves is None and not lacking and not failures:
        return None
    judged = [_judged(ref.settings, each, publications) for each in certificates[:SHOWN]]
    newest = judged[0].certificate if judged else None
    day = Day(
        partition,
        serves,
        halves.published.get(partition) if partition else None,
        CertificateSummary(newest.equal, newest.created, newest.run, newest.late_events) if newest else None,
        judged[0].refused if judged else "",
        still_dirty(dirty.days if dirty else {}, partition, halves),
        lacking,
    )
    return PartitionHistory(
        day, tuple(judged), len(certificates) - len(judged), tuple(publications), dirty, tuple(failures)
    )


def publications_of(ref: VersionRef, partition: date | None) -> list[Publication]:
    """Returns the commits that published this partition, newest first, as far as the table's log is kept."""
    found = []
    for committed in commit_history(ref.batch_table, _COMMITS):
        run, day = committed.note.batch.removeprefix("publish:"), str(partition)
        for entry in committed.note.extra.get("published", ()):
            if entry["run"] == run and entry["from"] <= day <= entry["to"]:
                at = datetime.fromtimestamp(committed.commit_time_ms / 1000, UTC)
                found.append(Publication(run, Cut.from_json(entry["cut"]), at))
    return found


def _judged(settings: Settings, certificate: Certificate, publications: list[Publication]) -> CertificateEntry:
    verdict = verdict_of(VersionRef(settings, certificate.view, certificate.version), certificate.run)
    day = certificate.partition
    published = next((each for each in publications if each.run == certificate.run), None)
    changes = next((each for each in verdict.late_changes if each.partition == day), None) if verdict else None
    return CertificateEntry(certificate, verdict, published, refusal(verdict, day), changes, _differs(verdict, day))


def _differs(verdict: Verdict | None, day: date | None) -> str:
    """Returns the part of a verdict's report for ``day``. A report has the tables of a few days, each with a title."""
    if verdict is None or not verdict.report:
        return ""
    title, where = f"{verdict.view} v{verdict.version}: ", f" on {day}" if day else ""
    parts: list[list[str]] = []
    for line in verdict.report.splitlines():
        if line.startswith(title):
            parts.append([])
        if parts:
            parts[-1].append(line.rstrip())
    mine = (part for part in parts if part[0].endswith(f" rows differ{where}"))
    return "\n".join(next(mine, [])).rstrip()
