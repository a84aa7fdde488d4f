"""The project's DAG files, as Airflow's DAG processor knows them (a bundle): parsed again once what they say can have
changed.

Airflow notices a file in ``dags/`` that has changed by itself. But ours say what other files declare: the versions of
each view, and which of them readers have. Parsing all of them every 30 s, as Airflow does by default, took a ninth of
the CPU time of the tests with real servers. So Airflow parses them rarely (``airflow_parts.constants``), and this
bundle asks for it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from anabranch.apps.airflow._dag_sources import sources
from anabranch.core.settings import load_settings

log = logging.getLogger(__name__)


class ProjectBundle(LocalDagBundle):
    """The folder ``dags`` of a project. Airflow calls ``refresh`` every 10 s, in the DAG processor only."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._known: tuple[tuple[str, int, int], ...] | None = None

    def refresh(self) -> None:
        """Request that all files are parsed, if what they read has changed since the last call."""
        found = tuple(sources(load_settings()))
        if self._known is not None and found != self._known:
            self._request_parsing()
        self._known = found

    def _request_parsing(self) -> None:
        """What Airflow's API does for one file (PUT /parseDagFile), for each."""
        from airflow.models.dagbag import DagPriorityParsingRequest
        from airflow.utils.file import list_py_file_paths
        from airflow.utils.session import create_session

        files = sorted(str(Path(file).relative_to(self.path)) for file in list_py_file_paths(self.path))
        log.info("views or routes have changed: %s DAG files are parsed again", len(files))
        with create_session() as session:
            session.add_all(DagPriorityParsingRequest(bundle_name=self.name, relative_fileloc=file) for file in files)
