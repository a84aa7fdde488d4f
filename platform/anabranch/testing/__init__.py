"""Property-based tests for view authors: one call checks that both paths will agree on a view.

::

    from anabranch.testing import prove

    def test_departure_delays():
        prove(departure_delays)

In: a view with its topics. Out: a ``Proof``, or ``ProofFailed`` with a minimal counterexample and a file that replays
it. In the order in which they act: ``_log_generator`` draws logs (``_scenario``) from ``_values`` that the contracts
allow, also those that the code names (``_source_literals``); ``_fake_landing`` decides about their records;
``_evaluator`` applies the view's function and ``_properties`` check it; ``_end_to_end`` runs both real paths;
``_shrinking`` minimises a failure (``_counterexample``, which is raised); ``_diagnosis`` and ``_failure_report``
explain it; ``_saved_counterexample`` saves it. ``_proof`` calls all of these, as often as ``_options`` say, in the
session of ``_engine``. ``_rows`` compares rows.

Importing this package imports neither Spark nor hypothesis, because every pytest run loads its ``plugin``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if TYPE_CHECKING:
    from anabranch.testing._counterexample import ProofFailed
    from anabranch.testing._fake_landing import Event, Landing
    from anabranch.testing._proof import Proof, prove
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {"_counterexample": ("ProofFailed",), "_fake_landing": ("Event", "Landing"), "_proof": ("Proof", "prove")},
    )

__all__ = ["Event", "Landing", "Proof", "ProofFailed", "plugin", "prove"]
