"""The command line `anabranch`.

In: arguments. Out: text, tables or JSON on stdout, errors on stderr, and exit code 1 on errors or bad results.

`main` builds the app: each `*_commands` module registers its commands and imports heavy packages only when called
(`produce_commands` is public, because the demo produces, too). `_context` loads settings and declarations. `_tables`
prints tables. `_run_progress` triggers an Airflow run and follows it. `sample_oracle` checks the sample views for
`doctor --sent` and the demo. A command only parses, calls a package, and prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = ["main", "produce_commands", "sample_oracle"]
