# For scripts that set something up: says each step, how long it has taken every few seconds, and its time at the end.
# The output of the step's command goes to $log; its end is shown if the command fails.

ticker=
end_ticker() {
  [ -z "$ticker" ] || { kill "$ticker" && wait "$ticker"; } 2>/dev/null || true
  ticker=
}
trap end_ticker EXIT

# step TEXT MEASURE COMMAND...: MEASURE is a command whose output is said with the time, ":" for none.
step() {
  local what=$1 measure=$2 began=$SECONDS
  shift 2
  echo "setup: $what"
  # sleep must not hold the pipe that this script may write to: whoever reads it would wait for the last sleep's end.
  (while sleep "${SETUP_TELL_SECONDS:-10}" >/dev/null 2>&1; do echo "setup:   $((SECONDS - began)) s$($measure)"; done) &
  ticker=$!
  if ! "$@" >"$log" 2>&1; then
    end_ticker
    tail -n 15 "$log" >&2
    echo "setup: $what failed after $((SECONDS - began)) s; all of its output is in $log" >&2
    return 1
  fi
  end_ticker
  echo "setup:   done in $((SECONDS - began)) s$($measure)"
}
