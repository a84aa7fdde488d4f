"""Decoding: a record's bytes become an envelope, typed data, and the reason if it isn't valid.

In: a DataFrame of Kafka records, and the topic. Out: the columns of the landing table; no record is dropped here.

Avro and Protobuf are read into columns first (``_avro_columns``, ``_message_columns``, ``_fast_columns``); the records
that these refuse, and those of all other formats, by what follows.

``_documents`` makes JSON of records in other formats (``_readers``). ``_decode`` parses it: CloudEvents, those in
headers (``_binary_mode``), or records with a mapping (``_mapping``, and ``_epochs`` for times since 1970), with the
names that a contract gives its fields (``_renames``) and exact numbers (``_decimals``). ``_validity`` decides in Spark
which are valid, of texts by ``_text_rules``; ``_quarantine_reasons`` says afterwards, for the others alone, why not
(``_contract_reasons``: by their contract). A rule stands in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.ingest.landing.decoding._decode import decode, decode_fast, raw_frame
    from anabranch.ingest.landing.decoding._mapping import identity
    from anabranch.ingest.landing.decoding._quarantine_reasons import UNREADABLE, with_reasons
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_decode": ("decode", "decode_fast", "raw_frame"),
            "_mapping": ("identity",),
            "_quarantine_reasons": ("UNREADABLE", "with_reasons"),
        },
    )

__all__ = ["UNREADABLE", "decode", "decode_fast", "identity", "raw_frame", "with_reasons"]
