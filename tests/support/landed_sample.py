"""The project's own declarations for tests, and a landing table of its flights without Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.contracts import Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.project_folder import project_root
from anabranch.testing import Event, _fake_landing
from anabranch.views import Registry, View, load_views

__all__ = ["ALL_DECLARED", "DECLARED", "FLIGHTS", "Event", "Landing", "flight_views", "gallery", "sample_views"]

CONTRACTS = project_root() / "spark_jobs" / "contracts"
DECLARED = load_declarations(CONTRACTS)
FLIGHTS = DECLARED.topic("flights")
ALL_DECLARED = Declarations({**DECLARED.topics, **load_declarations(CONTRACTS / "gallery").topics})
"""With the topics that only the gallery reads."""


def sample_views() -> Registry:
    return load_views(project_root() / "spark_jobs" / "views", DECLARED)


def gallery() -> Registry:
    """The examples of every kind of view."""
    return load_views(project_root() / "spark_jobs" / "views" / "gallery", ALL_DECLARED)


def flight_views() -> list[View]:
    """The samples, and those of the gallery that read flights only."""
    return [v for v in (*sample_views(), *gallery()) if set(v.events) <= set(FLIGHTS.event_types)]


@dataclass
class Landing(_fake_landing.Landing):
    """Lands flights unless it is told otherwise."""

    topic: Topic = FLIGHTS
