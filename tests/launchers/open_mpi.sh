#!/usr/bin/env bash
source "$(dirname "$0")/lib.sh"
find_mpirun
mpirun+=(--oversubscribe)

check 3 "${mpirun[@]}" -n 3 "${command[@]}"
check 1 "${mpirun[@]}" -n 1 "${command[@]}"
check 3 "${mpirun[@]}" -n 3 -x MASTER_PORT="$port" -x TENDRIL_SHOW_LAUNCH=1 "${command[@]}"
grep -q "is rank 2 of 3 at 127.0.0.1:$port, started by Open MPI (" "$folder/err"
refuse 'this program was told to have 2 workers, but there are 3 processes: started by Open MPI' \
  "${mpirun[@]}" -n 3 "${command[@]}" --world-size 2
