"""Backups of what can't be made again, and their restore into an empty home (ADR 0037).

In: the settings of a home, and a folder on another disk. Out: one manifest a backup in that folder, and each file once,
under the hash of its content. Safe while streams run, and to kill at any point. The order of a backup:

1. ``backup_folder`` opens the folder and holds its lock;
2. ``chosen_files`` chooses the files of one consistent cut: what names a position of landing first, landing after it;
3. ``create`` copies those that the folder doesn't have, writes the ``manifest`` last, and removes old backups.

``verify`` reads every file of the backups again. ``restore`` copies one into ``HOME/.restoring``, compares every hash,
and moves it into place at the end.
"""

from anabranch.operate.backup.backup_folder import list_backups
from anabranch.operate.backup.create import Created, create_backup
from anabranch.operate.backup.restore import Restored, restore_backup
from anabranch.operate.backup.verify import Verified, verify_backups

__all__ = [
    "Created",
    "Restored",
    "Verified",
    "create_backup",
    "list_backups",
    "restore_backup",
    "verify_backups",
]
