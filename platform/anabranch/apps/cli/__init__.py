"""The command line `anabranch`.

In: arguments. Out: text, tables or JSON on stdout, errors on stderr, and exit code 1 on errors or bad results.

`main` builds the app: each `*_commands` module registers its commands and imports heavy packages only when called
(`produce_commands` is public, because others add commands to its group), and `plugins` those of other distributions,
such as anabranch-samples. `_context` loads settings and declarations. `_tables` prints tables (`print_whole`).
`_run_progress` triggers an Airflow run and follows it. A command only parses, calls a package, and prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.apps.cli._tables import print_whole
else:
    __getattr__, __dir__ = lazy_exports(__name__, {"_tables": ("print_whole",)})

__all__ = ["main", "plugins", "print_whole", "produce_commands"]
