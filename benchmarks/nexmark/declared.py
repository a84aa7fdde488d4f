"""The auction house as the platform sees a project: its topic and its views."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anabranch.contracts import Topic, load_declarations
from anabranch.contracts.model.declarations import Declarations
from anabranch.views import Registry, load_views

_HERE: Final = Path(__file__).parent
TOPIC: Final = "nexmark"


def declarations() -> Declarations:
    return load_declarations(_HERE / "contracts")


def topic() -> Topic:
    return declarations().topic(TOPIC)


def views() -> Registry:
    return load_views(_HERE / "views", declarations())
