"""Proofs for authors: one call holds a view to what both paths will do to it.

::

    from anabranch.testing import prove

    def test_departure_delays():
        prove(departure_delays)

Importing this folder imports neither Spark nor hypothesis: the pytest plug-in lies in it, and is loaded by every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.testing.fake_landing import Event, Landing
    from anabranch.testing.proof import Proof, prove
    from anabranch.testing.proof_failure import ProofFailed

__all__ = ["Event", "Landing", "Proof", "ProofFailed", "prove"]
_WHERE = {
    "Event": "fake_landing",
    "Landing": "fake_landing",
    "Proof": "proof",
    "ProofFailed": "proof_failure",
    "prove": "proof",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"anabranch.testing.{_WHERE[name]}"), name)
