#!/usr/bin/env bash
# Install requirements.lock with the Python that is named: nothing that the lock does not name can come in, and no file
# but those whose hashes it holds. What builds the packages that are published as sources comes from the lock, too, and
# first: pip would fetch it by itself otherwise, whichever is the newest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
shift
install() { "$python" -m pip install --disable-pip-version-check --no-deps --no-build-isolation --require-hashes "$@"; }
first=$(mktemp)
trap 'rm -f "$first"' EXIT
sed -n '/^setuptools==/,/[^\\]$/p' requirements.lock > "$first"
install "$@" -r "$first"
install "$@" -r requirements.lock
