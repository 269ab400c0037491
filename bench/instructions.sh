#!/usr/bin/env bash
# Counts with callgrind how many instructions one operation of each bench_ops case executes, and prints a table of
# tab-separated values: bench/instructions.sh PROGRAM
# All cases run in one process, so that valgrind starts once. The first 1,000 operations of each case are a warm-up and
# not counted. The first line names the compiler, flags, C library and CPU loops, on which the counts depend.
set -euo pipefail
program=${1:?usage: bench/instructions.sh PROGRAM}
calls=1000
command -v valgrind >/dev/null || { echo "error: bench/instructions.sh needs valgrind" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Collection is on only inside bench_ops_counted, and every return from it writes one numbered profile.
env -u LD_PRELOAD -u GLIBC_TUNABLES valgrind --tool=callgrind --collect-atstart=no --toggle-collect=bench_ops_counted \
  --dump-after=bench_ops_counted --callgrind-out-file="$scratch/profile" "$program" --each $calls \
  >"$scratch/cases" 2>"$scratch/log" || { cat "$scratch/log" >&2; exit 1; }

sed '1s/^/# /;q' "$scratch/cases"
printf 'case\tinstructions\n'
number=0
while read -r name; do
  number=$((number + 1))
  total=$(sed -n 's/^totals: //p' "$scratch/profile.$number")
  [ "${total:-0}" -gt 0 ] || { echo "error: callgrind counted no instructions for $name" >&2; exit 1; }
  printf '%s\t%s\n' "$name" $(((total + calls / 2) / calls))
done < <(tail -n +2 "$scratch/cases")
