#!/usr/bin/env bash
# libfaketime for the sweep's tests of clocks: it sets the clock of single processes. Debian's package of its command has
# its library, too.
set -euo pipefail
source "${BASH_SOURCE[0]%/*}/debian_package.sh"

get faketime faketime "tests of clocks" "install libfaketime (Debian: apt-get install faketime)" faketime
