"""A step of the maintenance that is taken for each version by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from anabranch.core.errors import root_cause
from anabranch.lake.layout import VersionRef
from anabranch.operate.maintenance._report import Action, ActionKind

log = logging.getLogger(__name__)


def of_each(refs: Sequence[VersionRef], step: Callable[[VersionRef], Iterator[Action]]) -> Iterator[Action]:
    """Calls ``step`` for each version. What fails at one, such as a file that can't be read, keeps only what is its."""
    for ref in refs:
        try:
            yield from step(ref)
        except Exception as error:  # the other versions are still processed
            log.exception("%s", ref)
            yield Action(ActionKind.FAILED, str(ref), root_cause(error))
