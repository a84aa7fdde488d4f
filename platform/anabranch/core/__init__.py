"""Core: what every other package uses, and what uses none of them.

In: environment variables and the machine. Out: settings, errors, Spark sessions, files that are written safely.

1. ``settings`` reads the configuration (``_ways_in_settings``: of HTTP, queues, StatsD; ``airflow_settings``: that of
   Airflow; ``_setting_types``; ``settings_checks``: what depends on one another; ``project_folder``: the project);
   ``home_format`` the format of a home; ``errors`` is the one tree of errors, ``extras`` says which extra is missing;
2. ``storage`` is the one seam to what is stored (``atomic_files``: to what one machine needs), ``control_file`` gives
   small files a type and a format version (``formats``: what to say of newer ones), ``control_objects`` changes them by
   compare-and-set; ``clocks`` compares points in time, and measures ages of days;
3. the package ``engine`` starts, watches and ends Spark engines;
4. ``part_report`` is what a part says about its work; the package ``text`` formats and reads text; ``old_names`` keeps
   old import names working.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch._lazy_exports import lazy_exports

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "airflow_settings",
    "atomic_files",
    "clocks",
    "control_file",
    "control_objects",
    "errors",
    "extras",
    "formats",
    "home_format",
    "old_names",
    "part_report",
    "project_folder",
    "settings",
    "settings_checks",
    "storage",
]
