#!/usr/bin/env bash
# Compares the language model's iterations/s, with a parameter server and a trainer, with the same program in PyTorch
# RPC, and prints Markdown tables:
#   bench/language_model.sh build/release/examples/apps/language_model/language_model_app [SECONDS OF PYTORCH [RUNS]]
# One table has the tutorial's sizes, the other 10,000 words and 200 units. Each row has the median and range of RUNS
# runs, because single runs differ by a factor of up to 1.7. The programs alternate, first on the first allowed core
# alone, then on all cores. Runs every PyTorch that peers.sh finds.
set -euo pipefail
program=${1:?usage: bench/language_model.sh PROGRAM [seconds [runs]]}
seconds=${2:-10} runs=${3:-5}
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
rate='iterations\/s'

row() {  # label, cores, output file, ratio
  if [ -e "$3.failed" ]; then
    printf '| %s | %s | failed: %s | | | |\n' "$1" "$2" "$(failure "$3" "$3.errors")"
  else
    printf '| %s | %s | %s | %s | %s | %s |\n' "$1" "$2" "$(spread "$3")" "${4:-}" "$(figure "$3" 'RPCs per iteration')" "$(figure "$3" 'loss')"
  fi
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $allowed, $(date -u +%F)"
echo
# table TITLE FLAGS...: measures every program in every placement, and Tendril in one process.
table() {
  local title=$1 cores run i peer
  shift
  printf '%s\n\n' "$title"
  echo "| program | cores | iterations/s, median [range] | speedup | RPCs per iteration | loss |"
  echo "|---|---|---|---|---|---|"
  for cores in "${placements[@]}"; do
    rm -f "$scratch"/*
    for ((run = 0; run < runs; ++run)); do
      measure "$scratch/ours" "$rate" taskset -c "$cores" "$program" "$@"
      for i in "${!pythons[@]}"; do
        measure "$scratch/peer$i" "$rate" taskset -c "$cores" "${pythons[$i]}" "$here/pytorch/rnn.py" --seconds "$seconds" "$@"
      done
      measure "$scratch/alone" "$rate" taskset -c "$cores" "$program" --world-size 1 "$@"
    done
    check_ours "$scratch/ours"
    check_ours "$scratch/alone"
    row Tendril "$cores" "$scratch/ours"
    for i in "${!pythons[@]}"; do
      peer=$(median "$scratch/peer$i")
      row "PyTorch $(torch_version "${pythons[$i]}")" "$cores" "$scratch/peer$i" "${peer:+$(ratio "$(median "$scratch/ours")" "$peer")}"
    done
    row 'Tendril, `--world-size 1`' "$cores" "$scratch/alone"
  done
  echo
}

table "The tutorial's sizes"
table "10,000 words, 200 units" --ntoken 10000 --ninp 200 --nhid 200 --nlayers 2 --batch 20 --bptt 35 --lr 1 \
  --tokens 100000 --epochs 1
