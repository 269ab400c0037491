#!/usr/bin/env bash
source "$(dirname "$0")/lib.sh"
for mpirun in mpirun.openmpi mpirun ""; do
  [ -n "$mpirun" ] || skip "Open MPI's mpirun is not installed (Debian: openmpi-bin)"
  "$mpirun" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' && break
done
flags=(--oversubscribe)
[ "$(id -u)" -ne 0 ] || flags+=(--allow-run-as-root)

check 3 "$mpirun" "${flags[@]}" -n 3 "${command[@]}"
check 1 "$mpirun" "${flags[@]}" -n 1 "${command[@]}"
check 3 "$mpirun" "${flags[@]}" -n 3 -x MASTER_PORT="$port" -x TENDRIL_SHOW_LAUNCH=1 "${command[@]}"
grep -q "is rank 2 of 3 at 127.0.0.1:$port, started by Open MPI (" "$folder/err"
refuse 'this program was told to have 2 workers, but there are 3 processes: started by Open MPI' \
  "$mpirun" "${flags[@]}" -n 3 "${command[@]}" --world-size 2
