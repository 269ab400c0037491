#!/usr/bin/env bash
# Measures operations on one and on two threads while another process occupies a core. Prints the ratio of the times as
# a Markdown table:
#   bench/held_core.sh build/release/bench/bench_tensor [CORE]
# A busy loop is pinned to CORE (default: the last one); the scheduler places the benchmark. The goal is a ratio of at
# most 1.1. Each time is the lowest of three medians from alternating runs. The minimum of single times would come
# from a moment in which the busy loop did not run.
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
