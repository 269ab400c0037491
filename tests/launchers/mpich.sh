#!/usr/bin/env bash
source "$(dirname "$0")/lib.sh"
for mpiexec in mpiexec.hydra mpiexec.mpich ""; do
  [ -n "$mpiexec" ] || skip "MPICH's mpiexec.hydra is not installed (Debian: mpich)"
  "$mpiexec" --version 2>/dev/null | grep -q HYDRA && break
done

check 3 "$mpiexec" -n 3 -genv MASTER_PORT "$port" "${command[@]}"
check 3 "$mpiexec" -n 3 -genv TENDRIL_PORT "$port" -genv TENDRIL_SHOW_LAUNCH 1 "${command[@]}"
grep -q "is rank 2 of 3 at 127.0.0.1:$port, started by MPICH's Hydra (" "$folder/err"
