#!/usr/bin/env bash
# Compares the training steps/s of small networks with PyTorch, on one thread and on two, and prints Markdown tables:
#   bench/nn.sh build/release/bench/bench_nn [THREADS...]
# Each figure is the median of three alternating runs. One thread is measured by CPU time, several threads by wall-clock
# time. Runs every PyTorch that peers.sh finds.
set -euo pipefail
program=${1:?usage: bench/nn.sh PROGRAM [threads...]}
shift
[ $# -gt 0 ] || set -- 1 2
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

# median NAME FILE: prints the median of a network's figures from several runs.
median() { awk -F'\t' -v name="$1" '$1 == name { print $2 }' "$2" | sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }

for threads in "$@"; do
  rm -f "$scratch"/*
  flags=(--threads "$threads" --seconds "${NN_SECONDS:-0.4}" --clock "$([ "$threads" = 1 ] && echo processor || echo wall)")
  header="| $threads thread(s), steps/s | Tendril |" rule="|---|---|"
  for round in 1 2 3; do
    "$program" "${flags[@]}" >>"$scratch/ours"
    for i in "${!pythons[@]}"; do
      OMP_NUM_THREADS=$threads "${pythons[$i]}" "$here/pytorch/nn.py" "${flags[@]}" \
        >>"$scratch/peer$i" 2>"$scratch/errors" ||
        echo "PyTorch $(torch_version "${pythons[$i]}") failed: $(failure "$scratch/errors")"
    done
  done
  for python in "${pythons[@]}"; do header+=" PyTorch $(torch_version "$python") | speedup |" rule+="---|---|"; done
  printf '%s\n%s\n' "$header" "$rule"
  for name in "MLP" "char-LSTM" "CNN" "GPT" "MLP, tiny" "char-LSTM, tiny" "CNN, tiny" "GPT, tiny"; do
    ours=$(median "$name" "$scratch/ours")
    row="| $name | $ours |"
    for i in "${!pythons[@]}"; do
      peer=$(median "$name" "$scratch/peer$i")
      row+=" $peer | $([ -z "$peer" ] || awk "BEGIN { printf \"%.2f\", $ours / $peer }") |"
    done
    echo "$row"
  done
  echo
done
