"""Backups of what can't be made again, and their restore into an empty home (ADR 0037).

In: the settings of a home, and a folder on another disk. Out: one manifest a backup in that folder, and each file once,
under the hash of its content. Safe while streams run, and to kill at any point. The order of a backup:

1. ``_backup_folder`` opens the folder and holds its lock;
2. ``_chosen_files`` chooses the files of one consistent cut: what names a position of landing first, landing after it;
3. ``_create`` copies those that the folder doesn't have, writes the ``_manifest`` last, and removes old backups.

``_hashed_files`` hashes what it writes and reads. ``_verify`` reads every file of the backups again. ``_restore``
copies one into ``HOME/.restoring``, compares every hash, and moves it into place at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.backup._backup_folder import list_backups
    from anabranch.operate.backup._create import Created, create_backup
    from anabranch.operate.backup._manifest import FORMAT
    from anabranch.operate.backup._restore import Restored, restore_backup
    from anabranch.operate.backup._verify import Verified, verify_backups
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "_backup_folder": ("list_backups",),
            "_create": ("Created", "create_backup"),
            "_manifest": ("FORMAT",),
            "_restore": ("Restored", "restore_backup"),
            "_verify": ("Verified", "verify_backups"),
        },
    )

__all__ = [
    "FORMAT",
    "Created",
    "Restored",
    "Verified",
    "create_backup",
    "list_backups",
    "restore_backup",
    "verify_backups",
]
