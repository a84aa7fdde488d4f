"""Types of settings, and the error of one that is refused."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from anabranch.core.errors import BadInput

Port = Annotated[int, Field(ge=1024, le=65535)]
Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]{1,253}$")]


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


Folder = Annotated[Path, AfterValidator(_absolute)]
File = Annotated[
    Path | None, BeforeValidator(lambda value: value or None), AfterValidator(lambda p: p and _absolute(p))
]
"""None if empty."""


def is_loopback(host: str) -> bool:
    """Whether ``host`` is reachable from this machine only. A name other than localhost may be any address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def refused(field: str, what: str, advice: str) -> BadInput:
    """The error SETTINGS_REFUSED for one field of the settings."""
    return BadInput(
        "SETTINGS_REFUSED",
        f"ANABRANCH_{field.upper()}: {what}",
        state="nothing was started",
        next_step=advice,
        settings=[field],
    )
