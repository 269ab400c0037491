#!/usr/bin/env bash
# repeats.sh PROGRAM [ARGUMENTS]: simulates the program twice, in two processes, with the same seed and calm faults. It must
# succeed both times, and the reports must be equal.
set -euo pipefail
seed=${TENDRIL_TEST_SEED:-1}
report() { TENDRIL_SIMULATE="seed=$seed,faults=calm" "$@" 2>&1 >/dev/null | grep -A 100 '^rpc::simulate: '; }
first=$(report "$@")
echo "$first"
second=$(report "$@")
[ "$first" = "$second" ] || { echo "failed: the second run with seed $seed reports: $second"; exit 1; }
