"""Property-based tests for view authors: one call checks that both paths will agree on a view.

::

    from anabranch.testing import prove

    def test_departure_delays():
        prove(departure_delays)

In: a view with its topics. Out: a ``Proof``, or ``ProofFailed`` with a minimal counterexample and a file that replays
it. In the order in which they act: ``log_generator`` draws logs (``scenario``) from ``values`` that the contracts
allow; ``fake_landing`` decides about their records; ``evaluator`` applies the view's function and ``properties`` check
it; ``end_to_end`` runs both real paths; ``shrinking`` minimises a failure (``counterexample``); ``diagnosis`` and
``failure_report`` explain it; ``saved_counterexample`` saves it. ``proof`` calls all of these.

Importing this package imports neither Spark nor hypothesis, because every pytest run loads its ``plugin``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.testing.fake_landing import Event, Landing
    from anabranch.testing.proof import Proof, prove
    from anabranch.testing.proof_failure import ProofFailed

__all__ = ["Event", "Landing", "Proof", "ProofFailed", "prove"]
_MODULES = {
    "Event": "fake_landing",
    "Landing": "fake_landing",
    "Proof": "proof",
    "ProofFailed": "proof_failure",
    "prove": "proof",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"anabranch.testing.{_MODULES[name]}"), name)
