#!/usr/bin/env bash
# CartPole steps/s at world sizes 2 and 3, beside the same program in PyTorch RPC, in one run, as a Markdown table:
#   bench/cartpole.sh build/release/examples/cartpole/cartpole [seconds of PyTorch] [python]
# Ours runs until it has solved the task (seed 1), PyTorch's for 20 seconds or until it has. "one core": all processes
# pinned to the first allowed core.
set -euo pipefail
program=${1:?usage: bench/cartpole.sh PROGRAM [seconds] [python]}
seconds=${2:-20}
python=${3:-python3}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

allowed=$(taskset -cp $$ | sed 's/.*: //')
first=$(echo "$allowed" | sed 's/[-,].*//')

figure() { sed -n "s/^ *$2  *//p" "$1" | head -1; }

row() {  # label, cores, output file
  printf '| %s | %s | %s | %s | %s |\n' "$1" "$2" "$(figure "$3" 'environment steps\/s')" "$(figure "$3" 'RPCs\/s')" "$(figure "$3" 'call latency')"
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $allowed"
echo
echo "| program | cores | environment steps/s | RPCs/s | call latency |"
echo "|---|---|---|---|---|"
for world_size in 2 3; do
  for cores in "$first" "$allowed"; do
    taskset -c "$cores" "$program" --world-size "$world_size" --seed 1 --curve "$scratch/curve" >"$scratch/ours"
    row "Tendril, world size $world_size" "$cores" "$scratch/ours"
    if taskset -c "$cores" "$python" "$here/pytorch/cartpole.py" --world-size "$world_size" --seed 1 --seconds "$seconds" >"$scratch/peer" 2>"$scratch/errors" &&
      grep -q 'environment steps/s' "$scratch/peer"; then
      row "PyTorch, world size $world_size" "$cores" "$scratch/peer"
      ours=$(figure "$scratch/ours" 'environment steps\/s')
      peer=$(figure "$scratch/peer" 'environment steps\/s')
      printf '| ratio | %s | %s | | |\n' "$cores" "$(awk "BEGIN { printf \"%.1f\", $ours / $peer }")"
    else
      printf '| PyTorch, world size %s | %s | %s | | |\n' "$world_size" "$cores" "$(tail -1 "$scratch/peer")"
    fi
  done
done
for flags in "--world-size 1" "--world-size 3 --steps-per-call 8"; do
  # shellcheck disable=SC2086  # flags are words
  "$program" $flags --seed 1 --curve "$scratch/curve" >"$scratch/ours"
  row "Tendril, \`$flags\`" "$allowed" "$scratch/ours"
done
