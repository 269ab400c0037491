# Sourced by .ci/run and .ci/deep. Each part is a function; parts run one after another and are timed and counted.
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
# Unset, because these variables would change the tests of a part.
unset TENDRIL_PRESET TENDRIL_CMAKE_ARGUMENTS TENDRIL_TEST_PART TENDRIL_TEST_DEVICE TENDRIL_TEST_DETERMINISTIC
install_packages procps  # stop needs ps, soak.sh needs pgrep
set -m  # each part is a process group, so that stopping it also stops its children
results=$(mktemp -d)
passed=0 failed=0 skipped=0
failures=() times=()
part_job='' watch=''
trap 'stop "$part_job"; stop "$watch"; rm -rf "$results"' EXIT
# stop PID: ends a process group and all descendants, also those in other groups: SIGTERM, and after 10 s SIGKILL.
stop() {
  [ -n "$1" ] || return 0
  local pids
  pids=$(ps -e -o pid=,ppid= | awk -v root="$1" '{ parent[$1] = $2 }
    END { for (pid in parent) { for (p = pid; p > 1 && p != root; p = parent[p]) ; if (p == root) print pid } }')
  # shellcheck disable=SC2086  # process numbers are words
  kill -TERM -- "-$1" $pids 2>/dev/null || true
  for _ in $(seq 100); do
    # shellcheck disable=SC2086
    kill -0 $pids 2>/dev/null || return 0
    sleep 0.1
  done
  # shellcheck disable=SC2086
  kill -KILL -- "-$1" $pids 2>/dev/null || true
}

# Seeds random tests, with a different seed for each commit. A failed test prints the seed.
: "${TENDRIL_TEST_SEED:=$((16#$(git rev-parse --short=8 HEAD | cut -c 1-8)))}"
export TENDRIL_TEST_SEED
[[ $TENDRIL_TEST_SEED =~ ^(0|[1-9][0-9]{0,17})$ ]] ||
  { echo "error: TENDRIL_TEST_SEED: got '$TENDRIL_TEST_SEED', expected a decimal number below 10^18" >&2; exit 2; }
say "TENDRIL_TEST_SEED=$TENDRIL_TEST_SEED"

# run_part NAME SECONDS: runs the function NAME, which may write a JUnit file to $TENDRIL_JUNIT, and stops it after SECONDS
# (0: never). Adds its tests to the counts. Sets part_status, and part_cpu to its CPU time in seconds.
run_part() {
  local name=$1 from=$SECONDS late=$results/$1.late
  export TENDRIL_JUNIT="$results/$name.xml"
  rm -f "$late" "$TENDRIL_JUNIT"
  say "$name"
  part_status=0
  # In a subshell, so that `exit` in a part ends only that part.
  (set -o pipefail; (trap 'times >"$results/$name.times"' EXIT; "$name") </dev/null 2>&1 | tee "$results/$name.log") &
  part_job=$!
  if [ "$2" -gt 0 ]; then
    (sleep "$2"; touch "$late"; stop "$part_job") &
    watch=$!
    disown "$watch"
  fi
  wait "$part_job" || part_status=$?
  if [ -e "$late" ]; then  # the watch is still ending the part's descendants
    while kill -0 "$watch" 2>/dev/null; do sleep 0.1; done
  else
    stop "$watch"
  fi
  part_job='' watch=''
  part_cpu=  # unknown if the part was killed
  if [ -s "$results/$name.times" ]; then
    part_cpu=$(tr 'ms' ' ' <"$results/$name.times" | awk '{ s += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", s }')
  fi
  if [ -e "$late" ]; then part_status=124 part_cpu=; fi
  count_part "$name" "$part_status"
  if [ -e "$late" ]; then
    failures+=("$name: out of time after $((SECONDS - from)) s")
    times+=("$name: out of time after $((SECONDS - from)) s")
  else
    times+=("$name: $((SECONDS - from)) s, ${part_cpu:-?} CPU-seconds")
  fi
  say "${times[-1]}"
}

# count_part NAME STATUS: adds the results in the part's JUnit file to the counts. Without a file, counts one test.
count_part() {
  local suite tests=0 bad=0 not_run=0
  if [ -s "$TENDRIL_JUNIT" ]; then
    suite=$(grep -m1 -A8 '<testsuite ' "$TENDRIL_JUNIT" | tr '\n' ' ') || part_status=1  # not a JUnit file
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

# what_failed NAME: prints a summary for the end of the log: the shortened messages of failed tests, or the last lines
# of the output of a part without tests.
what_failed() {
  if ! grep -qs 'status="fail"' "$TENDRIL_JUNIT"; then
    printf '\n'
    tail -n 8 "$results/$1.log" | cut -c 1-400 | sed 's/^/    /'
    return
  fi
  awk '/<testcase /{failed = /status="fail"/; lines = 0; if (failed) {match($0, /name="[^"]*"/); print "\n  " substr($0, RSTART + 6, RLENGTH - 7) ":"}}
    failed && /^seed: / {print "    " substr($0, 1, 400)}
    failed && /error: |ERROR: |SUMMARY|WARNING: Thread|terminate called|Timeout/ && lines++ < 8 {print "    " substr($0, 1, 400)}' "$TENDRIL_JUNIT"
}

# report: prints the failures, the times and, on the last line, the counts. Returns 1 if anything failed.
report() {
  [ ${#failures[@]} -eq 0 ] || printf 'failed: %s\n' "${failures[@]}"
  printf 'took: %s\n' "${times[@]}"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}
