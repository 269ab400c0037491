#!/usr/bin/env bash
# Runs rpc under random load and attacks: scripts/soak.sh [SECONDS [SEED]], by default 600 s. Ends at most about five
# minutes late, with status 0 if every check held.
#
# For two thirds of the time, four workers (tests/rpc/programs/soak.cpp) call each other. At random moments, their
# connections are cut, each worker is stopped and continued, and two are killed and restarted. Checks: every call ends
# and reports whether it may have run; no call runs twice; the callers' errors agree with the callees' counts; memory
# and file descriptors of the two workers that are not killed do not grow after the first quarter.
#
# For the rest of the time, rounds of three steps: a group of four workers under load; such a group in which workers are
# killed or stopped while strangers connect to every port; suites of peers that break the protocol, hang or end early.
# Checks: every call ends, every counter returns to zero, no process or socket folder is left, and no worker uses more
# than TENDRIL_SOAK_MIB MiB (default 600).
#
# TENDRIL_PRESET names the build (default: dev). TENDRIL_NO_BUILD=1 skips building it. Logs: build/PRESET/soak.
source "$(dirname "$0")/lib.sh"
preset=${TENDRIL_PRESET:-dev}
seconds=${1:-600}
seed=${2:-$RANDOM}
most_mib=${TENDRIL_SOAK_MIB:-600}
workers=4
if [ -z "${TENDRIL_NO_BUILD:-}" ]; then
  configure "$preset"
  build "$preset" test_rpc
fi
tests=build/$preset/tests
out=$PWD/build/$preset/soak
rm -rf "$out"
mkdir -p "$out"
# A short path, for the names of sockets. A separate folder shows leftover files.
runtime=$(mktemp -d /tmp/soak-XXXXXX)
chmod 700 "$runtime"
export XDG_RUNTIME_DIR=$runtime
end=$((SECONDS + seconds))
pids=()
failures=()
rounds=0 killed=0 stopped=0 strangers=0 attacks=0 peak=0

finish() {
  for pid in "${pids[@]}"; do kill -CONT "$pid" 2>/dev/null || true; kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$runtime"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
  failures+=("$*")
  echo "soak: $*" >&2
}
# pick N: sets picked to a random number below N. (A subshell would have its own random sequence.)
pick() { picked=$((RANDOM % $1)); }

# listening PID: prints the TCP ports on which the process listens.
listening() {
  local inodes port
  inodes=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n' | tr '\n' ' ')
  awk -v inodes=" $inodes" '$4 == "0A" && index(inodes, " " $10 " ") { split($2, a, ":"); print a[2] }' \
    "/proc/$1/net/tcp" 2>/dev/null | while read -r port; do echo $((16#$port)); done
}

# bother PORT: connects, sends nothing, random bytes or half of a hello, and disconnects.
bother() {
  pick 3
  case $picked in
    0) timeout 2 bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" ;;
    1) timeout 2 bash -c "head -c $((1 + RANDOM % 5000)) /dev/urandom >/dev/tcp/127.0.0.1/$1" ;;
    2) timeout 2 bash -c "printf 'TENDRIL\\0\\377\\377' >/dev/tcp/127.0.0.1/$1; sleep 0.2" ;;
  esac >/dev/null 2>&1 || true
  strangers=$((strangers + 1))
}

# group clean|faults DURATION: runs one group of workers.
group() {
  local kind=$1 duration=$2 port rank pid status victims=() deadline log
  pick 12000
  port=$((20000 + picked))
  pids=()
  for ((rank = 0; rank < workers; ++rank)); do
    RANK=$rank WORLD_SIZE=$workers MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      "$tests/rpc_programs/soak_worker" "$duration" "$((seed + rounds))" "$kind" >"$out/$rounds.$kind.$rank.log" 2>&1 &
    pids+=($!)
  done
  deadline=$((SECONDS + 60))
  for ((rank = 0; rank < workers; ++rank)); do
    until grep -q ready "$out/$rounds.$kind.$rank.log" || ! kill -0 "${pids[rank]}" 2>/dev/null || [ $SECONDS -ge $deadline ]; do
      sleep 0.1
    done
  done
  if [ "$kind" = faults ]; then
    local until=$((SECONDS + duration - 1)) ports=()
    for pid in "${pids[@]}"; do mapfile -t -O ${#ports[@]} ports < <(listening "$pid"); done
    while [ $SECONDS -lt $until ]; do
      [ ${#ports[@]} -eq 0 ] || bother "${ports[RANDOM % ${#ports[@]}]}"
      pick 12
      if [ ${#victims[@]} -lt 2 ] && [ "$picked" -eq 0 ]; then
        rank=$((1 + RANDOM % (workers - 1)))  # rank 0 leads the rendezvous
        victims+=("$rank")
        pick 2
        if [ "$picked" -eq 0 ]; then
          kill -KILL "${pids[rank]}" 2>/dev/null && killed=$((killed + 1))
        else
          kill -STOP "${pids[rank]}" 2>/dev/null && stopped=$((stopped + 1))
        fi
      fi
      sleep 0.2
    done
    # Stopped workers continue long after the other workers consider them lost.
    sleep 4
    for rank in "${victims[@]}"; do kill -CONT "${pids[rank]}" 2>/dev/null || true; done
  fi
  deadline=$((SECONDS + duration + 100))
  for ((rank = 0; rank < workers; ++rank)); do
    pid=${pids[rank]}
    log=$out/$rounds.$kind.$rank.log
    while kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $deadline ]; do sleep 0.1; done
    if kill -0 "$pid" 2>/dev/null; then
      fail "round $rounds ($kind): worker $rank did not end; see $log"
      kill -ABRT "$pid"
      continue
    fi
    status=0
    wait "$pid" 2>/dev/null || status=$?
    case " ${victims[*]} " in *" $rank "*) continue ;; esac  # a victim may end with any status
    [ $status -eq 0 ] || fail "round $rounds ($kind): worker $rank ended with status $status: $(tail -n 1 "$log"); see $log"
    status=$(grep -oE 'peak [0-9]+' "$log" | tail -n 1 | tr -dc 0-9 || true)
    [ "${status:-0}" -le "$peak" ] || peak=$status
  done
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  pids=()
}

# attack: runs suites of peers that break the protocol, hang or end early.
attack() {
  local log=$out/$rounds.attacks.log
  local suites=agent_lifetime,few_descriptors,hung_owner,overtaken_cancel,pool_ending
  suites+=,shutdown_ends,small_limits,strangers,stuck_handlers,thread_cap,tls_strangers,key_strangers,unread,user_destructors
  timeout -k 10 300 "$tests/test_rpc" --run_test="$suites" >"$log" 2>&1 ||
    fail "round $rounds: attacks: $(grep -E 'error|failure' "$log" | tail -n 1); see $log"
  attacks=$((attacks + 1))
}

RANDOM=$seed
say "soak: $seconds s, seed $seed"
"$tests/rpc_programs/soak" $((seconds * 2 / 3)) "$seed" 2>&1 | tee "$out/survivors.log" >&2 ||
  fail "the workers that are killed, stopped and cut off: see $out/survivors.log"
while [ $SECONDS -lt $end ] && [ ${#failures[@]} -lt 5 ]; do
  rounds=$((rounds + 1))
  left=$((end - SECONDS))
  group clean $((left < 20 ? (left > 2 ? left / 2 : 1) : 10))
  [ $SECONDS -ge $end ] || group faults $((end - SECONDS < 20 ? 4 : 12))
  [ $SECONDS -ge $end ] || attack
done
rounds=$((rounds + 1))
group clean 1  # starts after the killed workers, and removes their leftovers

[ "$peak" -le "$most_mib" ] || fail "a worker used $peak MiB, more than $most_mib"
folders=$(find "$runtime" -mindepth 1 -maxdepth 1 | wc -l)
[ "$folders" -eq 0 ] || fail "$folders socket folders are left in $runtime"
processes=$(pgrep -fc "^$tests/rpc_programs/soak_worker" || true)
[ "$processes" -eq 0 ] || fail "$processes workers are left"

calls=$(cat "$out"/*.log | grep -oE '^w[0-9]+: [0-9]+ calls' | awk '{ n += $2 } END { print n + 0 }' || true)
echo "soak: $rounds rounds in $SECONDS s, seed $seed: $calls calls, $killed workers killed, $stopped stopped," \
  "$strangers strangers, attacks $attacks times; at most $peak MiB a worker; ${#failures[@]} failures"
[ ${#failures[@]} -eq 0 ]
