#!/usr/bin/env bash
source "$(dirname "$0")/lib.sh"
find_mpiexec

# Two jobs at once, whose ports are theirs, do not meet.
"$mpiexec" -n 3 "$cartpole" --episodes 3 --curve "$folder/other" >"$folder/other.out" 2>&1 </dev/null &
other=$!
started+=("$other")
check 3 "$mpiexec" -n 3 "${command[@]}"
wait "$other" || { cat "$folder/other.out"; exit 1; }
grep -q "world size 3," "$folder/other.svg"

check 3 "$mpiexec" -n 3 -genv MASTER_PORT "$port" "${command[@]}"
check 3 "$mpiexec" -n 3 -genv TENDRIL_PORT "$port" -genv TENDRIL_SHOW_LAUNCH 1 "${command[@]}"
grep -q "is rank 2 of 3 at 127.0.0.1:$port, started by MPICH's Hydra (" "$folder/err"
