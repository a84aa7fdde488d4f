"""What must hold before readers are led to a version, and as long as they are: each failing check in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anabranch.certify.certificates import newest_certificates
from anabranch.certify.compare_versions import compare_versions
from anabranch.core.errors import AnabranchError, BadInput, TryAgain
from anabranch.core.settings import Settings
from anabranch.serve import read_untracked
from anabranch.serve.reader_log import failed_reads
from anabranch.views.definition import View

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Expectations:
    """What the author of the new version promises: nothing but ``changed`` columns differs from the old one (compared
    where ``compared``), every row keeps each of ``checks`` (an SQL predicate), and both versions are at most
    ``behind`` epochs behind landing."""

    changed: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    behind: int = 30
    compared: bool = True


@dataclass(frozen=True, slots=True)
class Checked:
    """``failed``: the checks that fail now, in words. ``unmade``: those that can't be made now, and why."""

    failed: tuple[str, ...]
    unmade: tuple[TryAgain, ...] = ()


def failed_checks(settings: Settings, old: View, new: View, promise: Expectations) -> list[str]:
    """All checks that fail now, of a version that has no readers yet. BadInput CHECK_REFUSED: a check is no predicate
    over the new version's columns. TryAgain: one can't be made now."""
    found = checked(settings, old, new, promise, thorough=True, broken=False)
    if found.unmade:
        raise found.unmade[0]
    return list(found.failed)


def checked(
    settings: Settings,
    old: View,
    new: View,
    promise: Expectations,
    *,
    thorough: bool,
    since: int | None = None,
    broken: bool = True,
) -> Checked:
    """Make each check by itself: one that can't be made hides no other.

    Without ``thorough`` only those that need no look at the rows: certificates, how far both versions have come, and
    reads of the new one that failed where route number ``since``, or a newer one, had led them. ``broken``: a table
    that is gone or torn is a failing check; else its error is raised.
    """
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: _uncertified(settings, old, new),
        lambda: _behind(settings, old, new, promise),
    ]
    if since is not None:
        checks.append(lambda: _unread(settings, new, since))
    if thorough:
        checks += [lambda: _broken(settings, new, promise), lambda: _different(settings, old, new, promise)]
    failed: list[str] = []
    unmade: list[TryAgain] = []
    for check in checks:
        try:
            failed += check()
        except TryAgain as wait:
            unmade.append(wait)
        except AnabranchError as error:
            if not broken:
                raise
            failed.append(f"it can't be checked: {error.what}")
    return Checked(tuple(dict.fromkeys(failed)), tuple(unmade))


def _uncertified(settings: Settings, old: View, new: View) -> Iterator[str]:
    known = {view.version: newest_certificates(settings, view.name, view.version) for view in (old, new)}
    for version, certificates in known.items():
        wrong = [str(day or "the whole view") for day, each in certificates.items() if not each.equal]
        if wrong:
            yield f"the paths of v{version} differ on {_listed(wrong)}"
    missing = [str(day or "the whole view") for day in known[old.version] if day not in known[new.version]]
    if missing:
        yield f"v{new.version} has no certificate of {_listed(missing)}, v{old.version} has"


def behind(settings: Settings, view: str, version: int) -> int:
    """How many epochs have landed that this version doesn't cover yet. BadInput VIEW_UNKNOWN or TryAgain VIEW_NOT_READY
    before its stream has committed anything."""
    return read_untracked(settings, view, version).freshness.behind


def _behind(settings: Settings, old: View, new: View, promise: Expectations) -> Iterator[str]:
    for view in (old, new):
        epochs = behind(settings, view.name, view.version)
        if epochs > promise.behind:
            yield f"v{view.version} is {epochs} epochs behind landing, more than {promise.behind}"


def _unread(settings: Settings, new: View, since: int) -> Iterator[str]:
    failed = failed_reads(settings, new.name, new.version, since)
    if failed:
        who = _listed([f"{each.reader} [{each.code}, {each.engine}]" for each in failed])
        yield f"{sum(each.count for each in failed)} reads of v{new.version} failed: {who}"


def _broken(settings: Settings, new: View, promise: Expectations) -> Iterator[str]:
    for check in promise.checks:
        try:
            rows = read_untracked(settings, new.name, new.version, where=f"NOT ({check})").to_arrow().num_rows
        except BadInput as error:
            raise BadInput(
                "CHECK_REFUSED", f"check {check!r}: {error.what}", next_step=error.next_step, field="checks"
            ) from None
        if rows:
            yield f"{rows:,} rows of v{new.version} break {check}"


def _different(settings: Settings, old: View, new: View, promise: Expectations) -> Iterator[str]:
    if not promise.compared:
        return
    found = compare_versions(settings, old, new, promise.changed)
    if not found.as_declared:
        columns = sorted({name for each in found.partitions for name in each.cells} - found.changed)
        alone = sum(each.only_old + each.only_new for each in found.partitions)
        what = [*([f"in {', '.join(columns)}"] if columns else []), *([f"by {alone:,} rows"] if alone else [])]
        days = _listed([str(day or "the whole view") for day in found.unexpected])
        yield f"v{old.version} and v{new.version} differ {' and '.join(what)} on {days} at {found.cut}"


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
