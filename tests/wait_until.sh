# shellcheck shell=bash
# Sourced by tests that wait for a state that changes without a notification.

# wait_until SECONDS COMMAND...: runs the command every 20 ms until it succeeds. Returns 1 if it still fails after that
# many seconds (at most one more).
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS <= end)) || return 1
    sleep 0.02
  done
}
