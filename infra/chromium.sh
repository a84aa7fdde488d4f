#!/usr/bin/env bash
# A browser for the tests that click. Nothing to do where one is on PATH. Who may install packages gets Debian's, or
# learns why not: there the tests must run. Others are told, and their tests are skipped.
set -euo pipefail

say() { printf 'chromium: %s\n  next:  %s\n' "$1" "$2" >&2; }
next="install Chromium so that chromium, chromium-browser or google-chrome is on PATH (Debian: apt-get install chromium)"

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then exit 0; fi
done

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  { command -v apt-get && sudo -n true; } >/dev/null 2>&1 || { say "none found, and no right to install one: tests that click are skipped" "$next"; exit 0; }
  as_root=(sudo -n)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }

echo "chromium: installing Debian's package"
{ apt update && apt install -y --no-install-recommends chromium && command -v chromium >/dev/null; } \
  || { say "none found, and apt-get could not install one" "$next"; exit 1; }
