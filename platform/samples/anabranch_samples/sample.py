"""The sample ``flights`` as ``anabranch`` finds it: the entry point of the group ``anabranch.samples``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.apps.cli.plugins import Sample
    from anabranch.operate.doctor import Check


@dataclass(frozen=True, slots=True)
class Flights:
    """See ``anabranch.apps.cli.plugins.Sample``."""

    distribution: str = "anabranch-samples"
    first_events: str = "anabranch produce flights --from 2013-01-01 --days 3"
    first_view: str = "departure_delays"
    first_days: str = "--from 2013-01-01 --to 2013-01-02"

    @property
    def folder(self) -> Path:
        """In the installed package; in a checkout, ``spark_jobs``."""
        here = Path(__file__).resolve()
        installed = here.parent / "project"
        return installed if installed.is_dir() else here.parents[3] / "spark_jobs"

    def check(self, sent: Path) -> Check:
        from anabranch_samples.oracle_check import oracle_check

        return oracle_check(sent)


FLIGHTS: Sample = Flights()
