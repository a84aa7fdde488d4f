"""Views: pure functions of events, declared once and run unchanged by the speed path and the batch path.

In: the view modules of a project (``spark_jobs/views``), its topics with their contracts, and landed rows.
Out: a ``Registry`` of checked view versions, and the functions that turn landed rows into a view's rows.

In the order in which they act: ``definition`` is one declared version; ``registry`` collects the declarations
(``project`` loads those of a project); ``function_source``, ``fingerprint`` and ``purity`` read the function's source;
``check`` judges Spark's plan by ``plan_rules`` and ``aggregate_rules``; ``definition_registry`` and
``upcaster_registry`` persist what was checked. At run time ``inputs`` selects events, ``upcast_select`` reads them in
the newest contract version, ``partitions`` says which partitions they affect. Authors also use ``joins``,
``processor`` and ``saved_searches``.
"""

from anabranch.views.definition import View
from anabranch.views.registry import Registry, collecting, load_views, readable_views, view

__all__ = ["Registry", "View", "collecting", "load_views", "readable_views", "view"]
