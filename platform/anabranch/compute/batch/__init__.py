"""The batch path: rebuild partitions from landing, stage them, and publish those that were certified.

In: a view, its topics, the partitions and the cut of a run. Out: a ``Build`` (staged files with a manifest), and later
one commit to the view's batch table that replaces exactly the certified partitions.

In the order in which they act: ``version_samples`` tries the view's function on a few events of every contract
version; ``rebuild`` computes the partitions and stages their files; ``manifest`` records them; ``certify`` (another
package) judges them; ``publish`` commits. ``missing_days`` finds the late events that neither half holds.
"""

from anabranch.compute.batch.manifest import Build, discard, read_manifest
from anabranch.compute.batch.publish import Published, publications, publish
from anabranch.compute.batch.rebuild import rebuild

__all__ = ["Build", "Published", "discard", "publications", "publish", "read_manifest", "rebuild"]
