#!/usr/bin/env bash
# A browser for the tests that click.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/debian_package.sh"

get chromium chromium "tests that click" \
  "install Chromium so that chromium, chromium-browser or google-chrome is on PATH (Debian: apt-get install chromium)" \
  chromium chromium-browser google-chrome
