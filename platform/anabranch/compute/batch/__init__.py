"""The batch path: rebuild partitions from landing, stage them, and publish those that were certified."""

from anabranch.compute.batch.manifest import Build, discard, read_manifest
from anabranch.compute.batch.publish import Published, publications, publish
from anabranch.compute.batch.rebuild import rebuild

__all__ = ["Build", "Published", "discard", "publications", "publish", "read_manifest", "rebuild"]
