"""Installs what a project needs in addition to Python packages: the JARs of Spark and Kafka, and a class archive.

``set_up`` (in ``_set_up``) resolves the pinned lists ``spark.jars.lock`` and ``kafka.jars.lock`` into the folder of
the setting ``jars`` (``resolve_jars``), then writes the class archive (``_archive_classes``). A second call does
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.operate.setup._set_up import set_up
else:
    __getattr__, __dir__ = lazy_exports(__name__, {"_set_up": ("set_up",)})

__all__ = ["resolve_jars", "set_up"]
