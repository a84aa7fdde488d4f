#!/usr/bin/env bash
# Write the hashes of all files (wheels of every platform, and sources) of each version that requirements.lock pins. The
# versions stay, and so do the comments at its top. The registry is whichever uv is told of (UV_DEFAULT_INDEX).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
grep '^#' requirements.lock > "$scratch/new.lock"
"$scratch/venv/bin/uv" pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header --no-emit-index-url \
  --no-emit-find-links --universal --python-version 3.11 requirements.lock -o "$scratch/hashed.lock" > /dev/null
cat "$scratch/hashed.lock" >> "$scratch/new.lock"
cp "$scratch/new.lock" requirements.lock
