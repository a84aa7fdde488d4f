"""Disks that are small or read-only, and the doctor as the judge of what is left after a fault."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anabranch.contracts import Topic
from anabranch.contracts.model.declarations import Declarations
from anabranch.core.settings import Settings, load_settings
from anabranch.lake import latest_commit
from anabranch.operate.doctor import CHECKS, Context, examine, log_of
from anabranch.operate.doctor._run_checks import Report
from support.full_disks import Disk
from support.landed_sample import DECLARED, sample_views

MEGABYTE = 2**20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Skips where this user may not mount: only then is a disk really full, for root as well."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={32 * MEGABYTE}", "tmpfs", path],  # noqa: S607
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield Disk(path)
    subprocess.run(["umount", "-l", path], check=True)  # noqa: S607


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(home=tmp_path / "home", shuffle_partitions=1)


def _is_double(uri: str) -> bool:
    found = latest_commit(uri)
    return found is not None and found.note.batch.startswith("test:")


@pytest.fixture
def diagnosis() -> Callable[..., Report]:
    """What the doctor says of a platform, which has these topics more. Of a table that was landed without Kafka
    (``landed.Landing``) it isn't asked everything: its notes say less than landing's own."""

    def ask(settings: Settings, *topics: Topic) -> Report:
        declared = Declarations({**DECLARED.topics, **{topic.name: topic for topic in topics}})
        platform = Context(settings, declared, sample_views(), log_of(settings))
        double = any(_is_double(place.uri) for place in platform.places("landing"))
        checks = [check for check in CHECKS if not (double and check.name == "contents of epochs")]
        return examine(platform, checks, pause=0.1)

    return ask
