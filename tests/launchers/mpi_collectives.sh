#!/usr/bin/env bash
# Collectives by Open MPI. usage: mpi_collectives.sh PROGRAM (tests/dist/programs/mpi_collectives.cpp)
source "$(dirname "$0")/lib.sh"
program=$1
find_mpirun
mpirun+=(--oversubscribe)

# expect COUNT TEXT COMMAND...: the command ends well, and says so on that many lines.
expect() {
  local count=$1 text=$2
  shift 2
  echo "\$ $*"
  timeout -k 10 150 "$@" >"$folder/out" 2>"$folder/err" </dev/null || { echo "status $?"; cat "$folder/out" "$folder/err"; exit 1; }
  cat "$folder/out" "$folder/err"
  [ "$(grep -cF -- "$text" "$folder/out")" -eq "$count" ] || { echo "failed: expected '$text' $count times"; exit 1; }
}

expect 2 "of 2: MPI and the ring agree" "${mpirun[@]}" -n 2 "$program" agree
expect 3 "of 3: MPI and the ring agree" "${mpirun[@]}" -n 3 "$program" agree
expect 2 "calls all_reduce(sum, by MPI) of float32 [3]" "${mpirun[@]}" -n 2 "$program" differ
expect 1 "this process was not started by Open MPI's mpirun" env RANK=0 WORLD_SIZE=1 MASTER_PORT="$port" "$program" alone
