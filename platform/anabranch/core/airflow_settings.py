"""Our own Airflow as settings say: its addresses, its logins, and its notifiers."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from anabranch.core.settings import Settings


def _not_admin(name: str) -> str:
    if name == "admin":
        raise ValueError("the user admin is always there")
    return name


Login = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"), AfterValidator(_not_admin)]
"""The name of a user. Airflow separates names and roles by colons and commas."""
Role = Literal["viewer", "user", "op", "admin"]
"""The roles of Airflow's simple auth manager; each may do what those before it may."""


class Notifier(BaseModel):
    """A notifier of Airflow: the dotted name of its class, and its arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    notifier: str = Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    arguments: dict[str, Any] = Field(default_factory=dict)


def airflow_address(settings: Settings) -> str:
    """The address of the UI and the REST API of our own Airflow."""
    return f"http://127.0.0.1:{settings.airflow_port}"


def airflow_api(settings: Settings) -> str:
    """The address of the REST API that our processes call: the one in the settings, else our own Airflow's."""
    return settings.airflow_url.rstrip("/") or airflow_address(settings)


def on_this_machine(address: str) -> bool:
    """Whether a server is on this machine: no proxy may get what is sent there, nor the password."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def passwords_file(settings: Settings) -> Path:
    """The file that Airflow's simple auth manager reads its users' passwords from."""
    return settings.home / "secrets" / "airflow_passwords.json"
