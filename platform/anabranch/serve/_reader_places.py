"""Where readers are among the versions of a view: each percent of the readers has one version.

A reader's place is a hash of its name. When shares change, only versions that lose readers give percents away: whoever
has a version keeps it while that version's share only grows, however many versions there are (ADR 0015).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

Places = Sequence[int]
"""The version of each percent of the readers, 100 in all."""


def percent_of(view: str, reader: str) -> int:
    """Return the reader's place, from 0 to 99."""
    digest = hashlib.sha256(f"{view}\n{reader}".encode()).digest()
    return int.from_bytes(digest[:8]) * 100 >> 64


def first_places(shares: Mapping[int, int]) -> Places:
    """Return the places of a view's first route, and of routes that store none: the newest version has the first
    percents, older ones follow."""
    return [version for version in sorted(shares, reverse=True) for _ in range(shares[version])]


def next_places(places: Places, shares: Mapping[int, int]) -> Places:
    """Return ``places`` after a change to ``shares``. A version takes the first percents that older ones lose, then the
    last ones that newer ones lose: between two versions the same readers are first each time, and last to go back."""
    now, had = list(places), Counter(places)
    spare = {version: count - shares.get(version, 0) for version, count in had.items()}
    needed = {version: share - had[version] for version, share in shares.items()}

    def give(version: int, percents: Iterable[int], *, older: bool) -> None:
        for percent in percents:
            loser = now[percent]
            if needed[version] > 0 and (loser < version) == older and spare.get(loser, 0) > 0:
                now[percent] = version
                spare[loser] -= 1
                needed[version] -= 1

    for version in sorted(shares, reverse=True):
        give(version, range(len(now)), older=True)
    for version in sorted(shares):
        give(version, reversed(range(len(now))), older=False)
    return now


def to_runs(places: Places) -> list[list[int]]:
    """Return places as they are stored: version and number of percents of each run."""
    return [[version, len(list(run))] for version, run in groupby(places)]


def from_runs(runs: Iterable[Sequence[int]]) -> Places:
    """The inverse of ``to_runs``."""
    return [version for version, count in runs for _ in range(count)]
