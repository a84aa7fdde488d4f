"""Events over HTTP: requests in, records of the log out, acknowledged after the broker has them.

In: CloudEvents (structured, binary, batches) and the plain JSON of mapped topics. Out: records, and for each request
where they are in the log, or what was wrong with it.

``__main__`` runs ``_app`` on uvicorn, whose connections ``_connection`` bounds. A request passes ``access`` (tokens and
signatures), ``_bodies`` makes records of it, ``contracts.sending._record_check`` holds them to their contracts where
that is switched on, and ``_sender`` gives them to the broker and waits for its answer. What isn't checked here is
checked by landing, as for any producer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["access"]
