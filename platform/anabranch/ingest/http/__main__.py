"""``python -m anabranch.ingest.http``: the HTTP server, until it is stopped. Started by `anabranch up`."""

from __future__ import annotations

import sys

import uvicorn

from anabranch.contracts import load_declarations
from anabranch.core.errors import AnabranchError
from anabranch.core.settings import load_settings
from anabranch.ingest.http._app import application
from anabranch.ingest.http._connection import BoundedConnection
from anabranch.ingest.kafka.admin import existing_topics

GRACE_SECONDS = 10
MOST_REQUESTS = 512
"""Connections at once: what their bodies may take, at most 8 MB each, fits into memory. Others get 503."""


def main() -> int:
    try:
        settings = load_settings()
        declarations = load_declarations(settings.contracts_folder)
        existing_topics(settings)  # so that a broker that isn't there is named
        app = application(settings, declarations)
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    certificate = settings.http_certificate
    uvicorn.run(
        app, host=settings.http_host, port=settings.http_port, loop="uvloop", http=BoundedConnection, ws="none",
        log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_SECONDS,
        limit_concurrency=MOST_REQUESTS,
        ssl_certfile=certificate, ssl_keyfile=certificate,
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
