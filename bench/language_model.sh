#!/usr/bin/env bash
# Iterations/s of the language model, parameter server and trainer, beside the same program in PyTorch RPC, in one run, as
# a Markdown table:
#   bench/language_model.sh build/release/examples/language_model/language_model [seconds of PyTorch] [python]
# Both at the tutorial's sizes. "one core": both processes pinned to the first allowed core.
set -euo pipefail
program=${1:?usage: bench/language_model.sh PROGRAM [seconds] [python]}
seconds=${2:-10}
python=${3:-python3}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

allowed=$(taskset -cp $$ | sed 's/.*: //')
first=$(echo "$allowed" | sed 's/[-,].*//')
placements=("$first" "$allowed")
[ "$first" = "$allowed" ] && placements=("$first")

figure() { sed -n "s/^ *$2  *//p" "$1" | head -1; }

row() {  # label, cores, output file
  printf '| %s | %s | %s | %s | %s |\n' "$1" "$2" "$(figure "$3" 'iterations\/s')" "$(figure "$3" 'RPCs per iteration')" "$(figure "$3" 'loss')"
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $allowed"
echo
echo "| program | cores | iterations/s | RPCs per iteration | loss |"
echo "|---|---|---|---|---|"
for cores in "${placements[@]}"; do
  taskset -c "$cores" "$program" >"$scratch/ours"
  row Tendril "$cores" "$scratch/ours"
  if taskset -c "$cores" "$python" "$here/pytorch/rnn.py" --seconds "$seconds" >"$scratch/peer" 2>"$scratch/errors" &&
    grep -q 'iterations/s' "$scratch/peer"; then
    row PyTorch "$cores" "$scratch/peer"
    ours=$(figure "$scratch/ours" 'iterations\/s')
    peer=$(figure "$scratch/peer" 'iterations\/s')
    printf '| ratio | %s | %s | | |\n' "$cores" "$(awk "BEGIN { printf \"%.1f\", $ours / $peer }")"
  else
    printf '| PyTorch | %s | %s | | |\n' "$cores" "$(tail -1 "$scratch/peer")"
  fi
done
taskset -c "$first" "$program" --world-size 1 >"$scratch/ours"
row 'Tendril, `--world-size 1`' "$first" "$scratch/ours"
