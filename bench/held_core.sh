#!/usr/bin/env bash
# A second thread beside a process that holds a core: how long operations take on two threads over one, as a Markdown table:
#   bench/held_core.sh build/release/bench/bench_tensor [core]
# A busy loop is bound to the core (by default the last one) and the benchmark goes wherever the scheduler puts it. The goal is
# 1.1 at most. Each time is the least of three medians, of runs that take turns: the least time of all would be one at which
# the busy loop happened not to run.
set -euo pipefail
program=${1:?usage: bench/held_core.sh PROGRAM [core]}
core=${2:-$(($(nproc) - 1))}
scratch=$(mktemp -d)
taskset -c "$core" sh -c 'while :; do :; done' &
busy=$!
trap 'kill $busy; rm -rf "$scratch"' EXIT
for _ in 1 2 3; do
  for threads in 1 2; do "$program" --threads "$threads" >>"$scratch/$threads"; done
done
printf '| beside a process that holds core %s, ms | 1 thread | 2 threads | 2 over 1 |\n|---|---|---|---|\n' "$core"
awk -F'\t' '/memcpy|plain loop/ { next } FNR == NR { if (!($1 in one)) order[++n] = $1; if (!($1 in one) || $2 < one[$1]) one[$1] = $2; next }
  !($1 in two) || $2 < two[$1] { two[$1] = $2 }
  END { for (i = 1; i <= n; ++i) { name = order[i]; printf "| %s | %.4f | %.4f | %.2f |\n", name, one[name], two[name], two[name] / one[name] } }' \
  "$scratch/1" "$scratch/2"
