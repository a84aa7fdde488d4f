"""Renders pages as HTML. All values are escaped, and nothing is loaded from other sites."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from anabranch.apps.airflow.links import PREFIX
from anabranch.apps.web._days import STATES
from anabranch.apps.web._failures import Failure
from anabranch.apps.web._glossary import TERMS
from anabranch.core.text.quantities import counted, duration

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'self'"
)
REFRESH_SECONDS = 5
"""How often an open page shows itself anew (static/live.js)."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # "no-referrer" would remove the Origin header from our own forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def page(request: Request, template: str, *, status: int = 200, **given: Any) -> Response:
    """Renders a template of this package, with the addresses of our pages and of Airflow."""
    base = request.scope.get("root_path", "")
    always = {"base": base, "airflow": base.removesuffix(PREFIX), "now": datetime.now(UTC), "every": REFRESH_SECONDS}
    return guarded(HTMLResponse(_templates.get_template(template).render({**always, **given}), status))


def error_page(request: Request, failure: Failure, status: int) -> Response:
    return page(request, "error.html", status=status, failure=failure)


def guarded(response: Response, policy: str = POLICY) -> Response:
    """Adds the security headers. A header that the response already has is kept."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", policy)
    return response


def login_address(request: Request) -> str:
    """Airflow's login page, which redirects back to this page."""
    base = request.scope.get("root_path", "").removesuffix(PREFIX)
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"{base}/api/v2/auth/login?{urlencode({'next': here})}"


def _clock(moment: datetime | None) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def _ago(moment: datetime | None) -> str:
    return f"{duration(max(0.0, (datetime.now(UTC) - moment).total_seconds()))} ago" if moment else ""


_templates = Environment(
    loader=PackageLoader("anabranch.apps.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {"counted": counted, "clock": _clock, "ago": _ago, "duration": duration, "number": "{:,}".format}
_templates.globals |= {"states": STATES, "terms": TERMS}
