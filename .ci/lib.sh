# Sourced by .ci/run and .ci/deep: parts, each a function, run one after the other, timed and counted.
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
set -m  # every part is a process group, so that a part that is stopped takes its children along
results=$(mktemp -d)
passed=0 failed=0 skipped=0
failures=() times=()
part_job='' watch=''
trap 'stop "$part_job"; stop "$watch"; rm -rf "$results"' EXIT
stop() { [ -z "$1" ] || kill -TERM -- "-$1" 2>/dev/null || true; }

# Random tests draw from this seed, another one for each commit; a failed test prints it.
: "${TENDRIL_TEST_SEED:=$((16#$(git rev-parse --short=8 HEAD | cut -c 1-8)))}"
export TENDRIL_TEST_SEED
say "TENDRIL_TEST_SEED=$TENDRIL_TEST_SEED"

# run_part NAME SECONDS: runs the function NAME, which may write a JUnit file to $TENDRIL_JUNIT, and stops it after SECONDS
# (0: never). Adds to the counts. Sets part_status and part_cpu, its processor time in seconds.
run_part() {
  local name=$1 from=$SECONDS late=$results/$1.late
  export TENDRIL_JUNIT="$results/$name.xml"
  say "$name"
  part_status=0
  # A part that exits ends only itself.
  (set -o pipefail; (trap 'times >"$results/$name.times"' EXIT; "$name") 2>&1 | tee "$results/$name.log") &
  part_job=$!
  if [ "$2" -gt 0 ]; then
    (sleep "$2"; touch "$late"; stop "$part_job") &
    watch=$!
    disown "$watch"
  fi
  wait "$part_job" || part_status=$?
  stop "$watch"
  part_job='' watch=''
  part_cpu=$(tr 'ms' ' ' <"$results/$name.times" 2>/dev/null | awk '{ s += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", s }') || true
  count_part "$name" "$part_status"
  if [ -e "$late" ]; then
    failures+=("$name: out of time after $((SECONDS - from)) s")
    times+=("$name: out of time after $((SECONDS - from)) s")
  else
    times+=("$name: $((SECONDS - from)) s, ${part_cpu:-?} CPU-seconds")
  fi
}

# count_part NAME STATUS: adds the results in the part's JUnit file; a part without one counts as one test.
count_part() {
  local suite tests=0 bad=0 not_run=0
  if [ -s "$TENDRIL_JUNIT" ]; then
    suite=$(grep -m1 -A8 '<testsuite ' "$TENDRIL_JUNIT" | tr '\n' ' ')
    tests=$(attribute tests) bad=$(attribute failures)
    not_run=$(($(attribute skipped) + $(attribute disabled)))
  elif [ "$2" -eq 77 ]; then
    tests=1 not_run=1 part_status=0
  elif [ "$2" -eq 0 ]; then
    tests=1
  fi
  [ "$part_status" -eq 0 ] || [ "$bad" -gt 0 ] || { bad=1 tests=$((tests + 1)); }
  passed=$((passed + tests - bad - not_run)) failed=$((failed + bad)) skipped=$((skipped + not_run))
  [ "$bad" -eq 0 ] || failures+=("$1$(what_failed "$1" || true)")
}
attribute() { sed -n "s/.*[^a-z]$1=\"\([0-9]*\)\".*/\1/p" <<<"$suite" | grep . || echo 0; }

# The last lines of a long log are the ones that are read: the messages of the failed tests, shortened, or the last lines
# that a part without tests printed.
what_failed() {
  if ! grep -qs 'status="fail"' "$TENDRIL_JUNIT"; then
    printf '\n'
    tail -n 8 "$results/$1.log" | cut -c 1-400 | sed 's/^/    /'
    return
  fi
  awk '/<testcase /{failed = /status="fail"/; lines = 0; if (failed) {match($0, /name="[^"]*"/); print "\n  " substr($0, RSTART + 6, RLENGTH - 7) ":"}}
    failed && /error: |ERROR: |SUMMARY|WARNING: Thread|terminate called|Timeout|TENDRIL_TEST_SEED/ && lines++ < 8 {print "    " substr($0, 1, 400)}' "$TENDRIL_JUNIT"
}

# report: prints the failures, the times and, on the last line, the counts. Fails if anything did.
report() {
  [ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
  printf 'took: %s\n' "${times[@]}"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}
