#!/usr/bin/env bash
# Make the environment: .venv from requirements.lock, the package itself and its samples, the JARs of Spark and of the
# broker, and archives of the classes that engines and brokers load.
# Does nothing when a stamp says that the locks have not changed since the last time. Safe to repeat after a kill:
# the stamp is written last.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

source infra/steps.sh
fail() { printf 'setup: %s\n  next:  %s\n' "$1" "$2" >&2; exit 1; }

java=java
[ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
command -v "$java" >/dev/null || fail "no Java found ($java)" "install a Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\)[."].*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || fail "Java is version ${version:-unknown}; 17 or newer is needed" "install a newer Java, or set JAVA_HOME to one"

stamp=.venv/.anabranch-setup
made_from=$(cat requirements.lock pyproject.toml platform/samples/pyproject.toml platform/samples/setup.py platform/anabranch/operate/setup/*.* infra/setup.sh infra/steps.sh infra/install_lock.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$stamp" 2>/dev/null)" = "$made_from" ] && .venv/bin/python -c '' 2>/dev/null && [ -f .jars/spark/resolved.lock ] && [ -f .jars/kafka/resolved.lock ]; then
  exit 0
fi

new_enough() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
if ! { [ -x .venv/bin/python ] && new_enough .venv/bin/python; }; then
  found=
  for python in "${PYTHON:-python3}" python3 python3.11 python3.12 python3.13 python3.14; do
    if command -v "$python" >/dev/null && new_enough "$python"; then found=$python; break; fi
  done
  [ -n "$found" ] || fail "no Python 3.11 or newer with venv found (tried ${PYTHON:-python3} and python3.11 to python3.14)" \
    "install one (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.11"
  echo "setup: creating .venv with $("$found" --version)"
  "$found" -m venv --clear .venv
fi

log=.venv/setup.log
packages=$(grep -c '^[A-Za-z0-9]' requirements.lock)
installed() { echo ", $(grep -cE '^(Collecting|Requirement already satisfied)' "$log") of $packages packages"; }
step "downloading and installing requirements.lock: $packages packages, some 2 GB on disk" installed \
  infra/install_lock.sh .venv/bin/python --progress-bar off --no-compile
step "installing Anabranch itself and its samples, in place" : \
  .venv/bin/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e . -e platform/samples
# pip would compile one file after another. Some files are templates, and no Python: they fail, here as there.
nice .venv/bin/python -m compileall -qq -j 0 platform dags spark_jobs .venv/lib >/dev/null 2>&1 &
compiling=$!
trap 'end_ticker; kill "$compiling" 2>/dev/null || true' EXIT
.venv/bin/anabranch setup
wait "$compiling" || true
echo "$made_from" > "$stamp"
echo "setup: done in $SECONDS s"
