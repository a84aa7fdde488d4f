"""The types of the settings of our own Airflow: its logins, and its notifiers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


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
