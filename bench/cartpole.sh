#!/usr/bin/env bash
# Compares CartPole's steps/s at world sizes 2 and 3 with the same program in PyTorch RPC, and prints a Markdown table:
#   bench/cartpole.sh build/release/examples/apps/cartpole/cartpole_app [SECONDS OF PYTORCH [RUNS]]
# Tendril runs until it has solved the task (seed 1); PyTorch runs for 20 seconds by default, or until it has solved the
# task. Each row has the median and range of RUNS runs (default 5) and the call latency of the last one. The programs
# alternate, first on the first allowed core alone, then on all cores. Runs every PyTorch that peers.sh finds.
set -euo pipefail
program=${1:?usage: bench/cartpole.sh PROGRAM [seconds [runs]]}
seconds=${2:-20} runs=${3:-5}
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
check_runs "$runs"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

allowed=$(taskset -cp $$ | sed 's/.*: //')
first=$(echo "$allowed" | sed 's/[-,].*//')
placements=("$first" "$allowed")
[ "$first" = "$allowed" ] && placements=("$first")
mapfile -t pythons < <(peers)
rate='environment steps\/s'

row() {  # label, cores, output file, ratio
  if [ -e "$3.failed" ]; then
    printf '| %s | %s | failed: %s | | |\n' "$1" "$2" "$(failure "$3" "$3.errors")"
  else
    printf '| %s | %s | %s | %s | %s |\n' "$1" "$2" "$(spread "$3")" "${4:-}" "$(figure "$3" 'call latency')"
  fi
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $allowed, $(date -u +%F), $runs runs"
echo
echo "| program | cores | environment steps/s, median [range] | speedup | call latency |"
echo "|---|---|---|---|---|"
for world_size in 2 3; do
  for cores in "${placements[@]}"; do
    rm -f "$scratch"/*
    arguments=(--world-size "$world_size" --seed 1)
    for ((run = 0; run < runs; ++run)); do
      measure "$scratch/ours" "$rate" taskset -c "$cores" "$program" "${arguments[@]}" --curve "$scratch/curve"
      for i in "${!pythons[@]}"; do
        measure "$scratch/peer$i" "$rate" taskset -c "$cores" "${pythons[$i]}" "$here/pytorch/cartpole.py" "${arguments[@]}" --seconds "$seconds"
      done
    done
    check_ours "$scratch/ours"
    row "Tendril, world size $world_size" "$cores" "$scratch/ours"
    for i in "${!pythons[@]}"; do
      peer=$(median "$scratch/peer$i")
      row "PyTorch $(torch_version "${pythons[$i]}"), world size $world_size" "$cores" "$scratch/peer$i" "${peer:+$(ratio "$(median "$scratch/ours")" "$peer")}"
    done
  done
done
for flags in "--world-size 1" "--world-size 3 --steps-per-call 8"; do
  rm -f "$scratch"/*
  # shellcheck disable=SC2086  # flags are words
  for ((run = 0; run < runs; ++run)); do measure "$scratch/ours" "$rate" "$program" $flags --seed 1 --curve "$scratch/curve"; done
  check_ours "$scratch/ours"
  row "Tendril, \`$flags\`" "$allowed" "$scratch/ours"
done
