"""Sending: what a producer does with an event before the broker gets it.

In: an event, or a record's bytes. Out: CloudEvents JSON, or BadInput with the field that is wrong.

``_envelope`` writes an ``Event`` as CloudEvents JSON, ``_validation`` checks it against its contract, ``_record_check``
checks records that somebody else has written (those of ``anabranch.send`` and of HTTP, where that is switched on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.contracts.sending._envelope import SPEC_VERSION, Event, json_text, rfc3339
    from anabranch.contracts.sending._record_check import RecordCheck
    from anabranch.contracts.sending._validation import EventValidator, refused
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_envelope": ("Event", "SPEC_VERSION", "json_text", "rfc3339"),
            "_record_check": ("RecordCheck",),
            "_validation": ("EventValidator", "refused"),
        },
    )

__all__ = ["SPEC_VERSION", "Event", "EventValidator", "RecordCheck", "json_text", "refused", "rfc3339"]
