#!/usr/bin/env bash
# Compares CartPole's steps/s at world sizes 2 and 3 with the same program in PyTorch RPC, and prints a Markdown table:
#   bench/cartpole.sh build/release/examples/apps/cartpole/cartpole_app [SECONDS OF PYTORCH]
# Tendril runs until it has solved the task (seed 1); PyTorch runs for 20 seconds by default, or until it has solved the
# task. "one core": all processes are pinned to the first allowed core. Runs every PyTorch that peers.sh finds.
set -euo pipefail
program=${1:?usage: bench/cartpole.sh PROGRAM [seconds]}
seconds=${2:-20}
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

allowed=$(taskset -cp $$ | sed 's/.*: //')
first=$(echo "$allowed" | sed 's/[-,].*//')
mapfile -t pythons < <(peers)

row() {  # label, cores, output file, ratio
  printf '| %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$(figure "$3" 'environment steps\/s')" "${4:-}" "$(figure "$3" 'RPCs\/s')" "$(figure "$3" 'call latency')"
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $allowed, $(date -u +%F)"
echo
echo "| program | cores | environment steps/s | Tendril's over it | RPCs/s | call latency |"
echo "|---|---|---|---|---|---|"
for world_size in 2 3; do
  for cores in "$first" "$allowed"; do
    taskset -c "$cores" "$program" --world-size "$world_size" --seed 1 --curve "$scratch/curve" >"$scratch/ours"
    row "Tendril, world size $world_size" "$cores" "$scratch/ours"
    ours=$(figure "$scratch/ours" 'environment steps\/s')
    for python in "${pythons[@]}"; do
      label="PyTorch $(torch_version "$python"), world size $world_size"
      taskset -c "$cores" "$python" "$here/pytorch/cartpole.py" --world-size "$world_size" --seed 1 --seconds "$seconds" >"$scratch/peer" 2>"$scratch/errors" || true
      peer=$(figure "$scratch/peer" 'environment steps\/s')
      if [ -n "$peer" ]; then
        row "$label" "$cores" "$scratch/peer" "$(ratio "$ours" "$peer")"
      else
        printf '| %s | %s | failed: %s | | | |\n' "$label" "$cores" "$(failure "$scratch/peer" "$scratch/errors")"
      fi
    done
  done
done
for flags in "--world-size 1" "--world-size 3 --steps-per-call 8"; do
  # shellcheck disable=SC2086  # flags are words
  "$program" $flags --seed 1 --curve "$scratch/curve" >"$scratch/ours"
  row "Tendril, \`$flags\`" "$allowed" "$scratch/ours"
done
