#!/usr/bin/env bash
# Iterations/s of the language model, parameter server and trainer, beside the same program in PyTorch RPC, in one run, as
# a Markdown table:
#   bench/language_model.sh build/release/examples/language_model/language_model [seconds of PyTorch]
# At the tutorial's sizes, and with 10,000 words and 200 units. "one core": both processes pinned to the first allowed
# core. Every PyTorch that peers.sh finds takes part.
set -euo pipefail
program=${1:?usage: bench/language_model.sh PROGRAM [seconds]}
seconds=${2:-10}
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

allowed=$(taskset -cp $$ | sed 's/.*: //')
first=$(echo "$allowed" | sed 's/[-,].*//')
placements=("$first" "$allowed")
[ "$first" = "$allowed" ] && placements=("$first")
mapfile -t pythons < <(peers)

row() {  # label, cores, output file, ratio
  printf '| %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$(figure "$3" 'iterations\/s')" "${4:-}" "$(figure "$3" 'RPCs per iteration')" "$(figure "$3" 'loss')"
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $allowed, $(date -u +%F)"
echo
# table TITLE FLAGS...: both programs in every placement, and ours in one process.
table() {
  local title=$1
  shift
  echo "$title"
  echo
  echo "| program | cores | iterations/s | Tendril's over it | RPCs per iteration | loss |"
  echo "|---|---|---|---|---|---|"
  for cores in "${placements[@]}"; do
    taskset -c "$cores" "$program" "$@" >"$scratch/ours"
    row Tendril "$cores" "$scratch/ours"
    ours=$(figure "$scratch/ours" 'iterations\/s')
    for python in "${pythons[@]}"; do
      label="PyTorch $(torch_version "$python")"
      taskset -c "$cores" "$python" "$here/pytorch/rnn.py" --seconds "$seconds" "$@" >"$scratch/peer" 2>"$scratch/errors" || true
      peer=$(figure "$scratch/peer" 'iterations\/s')
      if [ -n "$peer" ]; then
        row "$label" "$cores" "$scratch/peer" "$(ratio "$ours" "$peer")"
      else
        printf '| %s | %s | failed: %s | | | |\n' "$label" "$cores" "$(failure "$scratch/peer" "$scratch/errors")"
      fi
    done
    taskset -c "$cores" "$program" --world-size 1 "$@" >"$scratch/ours"
    row 'Tendril, `--world-size 1`' "$cores" "$scratch/ours"
  done
  echo
}

table "The tutorial's sizes"
table "10,000 words, 200 units" --ntoken 10000 --ninp 200 --nhid 200 --nlayers 2 --batch 20 --bptt 35 --lr 1 \
  --tokens 100000 --epochs 1
