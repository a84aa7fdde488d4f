"""Files in S3, by the usual variables (``AWS_ACCESS_KEY_ID``, ``AWS_REGION``, ``AWS_ENDPOINT_URL`` ...).

Nothing is connected before the first file is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from anabranch.core.errors import TryAgain
from anabranch.ingest.files._full_disk import NOTHING_LOADED, full_disk
from anabranch.ingest.files._json_lines import refused

_SCHEME: Final = "s3://"
_CHUNK: Final = 8 << 20
_AWS_ERROR: Final = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?")
_AWAY: Final = frozenset(
    {"NETWORK_CONNECTION", "INTERNAL_FAILURE", "SERVICE_UNAVAILABLE", "SLOW_DOWN", "THROTTLING", "REQUEST_TIMEOUT"}
)
_AWAY_STATUS: Final = frozenset({408, 429, *range(500, 600)})
_CERTIFICATE: Final = re.compile(r"curlCode: (?:60|77)\b")
"""The server's certificate isn't trusted, or the file of those that are can't be read: no time mends that."""


def is_remote(name: str) -> bool:
    return name.startswith(_SCHEME)


def list_objects(name: str) -> list[str]:
    """The objects at or below an address, sorted. Raises TryAgain STORE_UNREACHABLE; its field ``away`` says whether
    the same call may succeed later, without any fix."""
    from pyarrow import fs

    try:
        store = _store()
        path = name.removeprefix(_SCHEME).rstrip("/")
        at = store.get_file_info(path)
        found = [at] if at.type == fs.FileType.File else []
        if at.type == fs.FileType.Directory:
            found = store.get_file_info(fs.FileSelector(path, recursive=True))
        return sorted(f"{_SCHEME}{each.path}" for each in found if each.type == fs.FileType.File)
    except OSError as error:
        raise _unreachable(name, error) from error


def copy_object(name: str, target: Path) -> None:
    """Copy an object to a local file. Raises TryAgain STORE_UNREACHABLE, DISK_FULL; BadInput FILE_UNREADABLE if it is
    replaced meanwhile; OSError of the local folder."""
    with full_disk(target.parent, name), target.open("wb") as file:
        for chunk in _chunks(name):
            file.write(chunk)


def _chunks(name: str) -> Iterator[bytes]:
    """The bytes of an object. A stream asks for them range by range, so they may be of two objects."""
    path = name.removeprefix(_SCHEME)
    try:
        store = _store()
        with store.open_input_stream(path) as source:
            before = _version(source)
            while chunk := source.read(_CHUNK):
                yield chunk
        with store.open_input_stream(path) as source:
            replaced = _version(source) != before
    except OSError as error:
        raise _unreachable(name, error) from error
    if replaced:
        raise refused(name, "it was changed while it was read")


def _version(source: Any) -> list[Any]:
    known = source.metadata()
    return [known.get(name) for name in ("ETag", "Content-Length", "Last-Modified")]


def _store() -> Any:
    from pyarrow import fs

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    scheme, _, host = endpoint.rpartition("://")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    given = {"endpoint_override": host, "scheme": scheme or "https"} if host else {}
    return fs.S3FileSystem(region=region, **given)


def _unreachable(name: str, error: OSError) -> TryAgain:
    return TryAgain(
        "STORE_UNREACHABLE",
        f"{name} can't be read: {' '.join(str(error).split())}",
        state=NOTHING_LOADED,
        next_step="check the address and the AWS_* variables; then load the same again: what has landed is skipped",
        away=_is_away(str(error)),
    )


def _is_away(said: str) -> bool:
    """Whether the store didn't answer, or not with what it has: not where it refuses, or something is missing."""
    found = _AWS_ERROR.search(said)
    if found is None or _CERTIFICATE.search(said):
        return False
    return found[1] in _AWAY or int(found[2] or 0) in _AWAY_STATUS
