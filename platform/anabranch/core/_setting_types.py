"""Types of settings, and the error of one that is refused."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

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


def _no_setting(name: str) -> str:
    if name.startswith("ANABRANCH_"):
        raise ValueError("settings reach the parts that need them by themselves")
    return name


VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*\*?$"), AfterValidator(_no_setting)]
"""An environment variable, or the beginning of several with ``*`` behind it."""
FOLDERS: Final = frozenset({"project", "home", "jars", "load_folder"})
"""The settings of type ``Folder``."""


class Variables(EnvSettingsSource):
    """The environment. A blank folder is as if it were not set: as a path it would be the working directory."""

    def __call__(self) -> dict[str, Any]:
        return _without_blank_folders(super().__call__())


class EnvFile(DotEnvSettingsSource):
    """``anabranch.env``, with blank folders as in the environment."""

    def __call__(self) -> dict[str, Any]:
        return _without_blank_folders(super().__call__())


def _without_blank_folders(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value != "" or name not in FOLDERS}


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
