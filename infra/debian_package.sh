# For scripts that get a package of Debian for the tests.

# get NAME PACKAGE SKIPPED NEXT PROGRAM...: nothing to do where one of the programs is there. Who may install packages
# gets Debian's, or learns why not: there the tests must run. Others are told, and their tests are skipped.
get() {
  local name=$1 package=$2 skipped=$3 next=$4 as_root=() program
  shift 4
  say() { printf '%s: %s\n  next:  %s\n' "$name" "$1" "$next" >&2; }
  apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null; }
  there() { for program in "$@"; do if command -v "$program" >/dev/null; then return 0; fi; done; return 1; }

  there "$@" && return 0
  if [ "$(id -u)" -ne 0 ]; then
    { command -v apt-get && sudo -n true; } >/dev/null 2>&1 || { say "none found, and no right to install one: $skipped are skipped"; return 0; }
    as_root=(sudo -n)
  fi
  echo "$name: installing Debian's package"
  { apt update && apt install -y --no-install-recommends "$package" && there "$@"; } \
    || { say "none found, and apt-get could not install one"; return 1; }
}
