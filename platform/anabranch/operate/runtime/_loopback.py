"""Requests to this machine never go through a proxy, whatever the environment names."""

from __future__ import annotations

import os
import ssl
import urllib.request
from typing import Any, Final

_HERE: Final = ("127.0.0.1", "localhost")


def open_here(address: str, seconds: float, context: ssl.SSLContext | None = None) -> Any:
    """The answer of a server on this machine, as of ``urlopen``."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    handlers += [urllib.request.HTTPSHandler(context=context)] if context else []
    return urllib.request.build_opener(*handlers).open(address, timeout=seconds)


def no_proxy() -> dict[str, str]:
    """The variables with which other programs know it, too: what the environment exempts already, and this machine."""
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    known = {name.strip() for name in exempt.split(",")}
    missing = [] if "*" in known else [host for host in _HERE if host not in known]
    return dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join([*([exempt] if exempt else []), *missing]))
