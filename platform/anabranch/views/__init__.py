"""Views: pure functions of events, declared once and run unchanged by the speed path and the batch path.

In: the view modules of a project (``spark_jobs/views``), its topics with their contracts, and landed rows. Out: a
``Registry`` of checked view versions, and the functions that turn landed rows into a view's rows.

In the order in which they act: the package ``model`` is one declared version; ``registry`` collects the declarations
(``project`` loads those of a project; ``sql_file``, ``_sql_query``, ``_sql_text``: views in SQL); ``function_source``,
``_fingerprint`` and ``_purity`` read the function's source (``_bindings``: of what it uses; ``_set_order``); ``check``
judges Spark's plan (``_catalyst``) by ``_plan_rules``, ``_aggregate_rules`` and ``_collations``;
``definition_registry`` and ``upcaster_registry`` persist what was checked, ``registered_definition`` reads it,
``retired_versions`` says which are over. At run time ``selection`` selects events and partitions, with the functions
that ``_upcasting`` has checked. Authors also use ``joins``, ``processor`` (as a stream: ``_processor_stream``) and
``saved_searches``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.views.model.definition import View
    from anabranch.views.registry import Registry, load_views, view
else:
    __getattr__, __dir__ = lazy_exports(
        __name__, {"model.definition": ("View",), "registry": ("Registry", "load_views", "view")}
    )

__all__ = [
    "Registry",
    "View",
    "check",
    "definition_registry",
    "function_source",
    "joins",
    "load_views",
    "processor",
    "project",
    "registered_definition",
    "registry",
    "retired_versions",
    "sql_file",
    "upcaster_registry",
    "view",
]
