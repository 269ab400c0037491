#!/usr/bin/env bash
# Compares operations on large operands with PyTorch, on one thread and on two, and prints Markdown tables:
#   bench/tensor.sh build/release/bench/bench_tensor [THREADS...]
# "of the copy": the minimum bytes/s that the operation must read and write, divided by those of a memcpy; above 1 if
# the operands stay in a cache. Runs every PyTorch that peers.sh finds.
set -euo pipefail
program=${1:?usage: bench/tensor.sh PROGRAM [threads...]}
shift
[ $# -gt 0 ] || set -- 1 2
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

# Each time is the lowest median of several alternating runs. During a run, two processors may be two hardware threads
# of one core, or be shared with other programs, which halves the arithmetic speed; the row of multiply-adds shows this.
turns=${TENDRIL_TURNS:-3}
least() { awk -F'\t' '!($1 in time) { order[++n] = $1 } !($1 in time) || $2 < time[$1] { time[$1] = $2; mib[$1] = $3 }
  END { for (i = 1; i <= n; ++i) printf "%s\t%s\t%s\n", order[i], time[order[i]], mib[order[i]] }' "$1"; }
for threads in "$@"; do
  rm -f "$scratch"/*
  for i in "${!pythons[@]}"; do : >"$scratch/all$i"; done
  for _ in $(seq "$turns"); do
    "$program" --threads "$threads" >>"$scratch/all"
    for i in "${!pythons[@]}"; do
      OMP_NUM_THREADS=$threads "${pythons[$i]}" "$here/pytorch/tensor.py" --threads "$threads" >>"$scratch/all$i" 2>"$scratch/errors" ||
        echo "PyTorch $(torch_version "${pythons[$i]}") failed: $(failure "$scratch/errors")"
    done
  done
  least "$scratch/all" >"$scratch/ours"
  header="| $threads thread(s), ms | Tendril | of the copy |" rule="|---|---|---|"
  for i in "${!pythons[@]}"; do
    least "$scratch/all$i" >"$scratch/peer$i"
    header+=" PyTorch $(torch_version "${pythons[$i]}") | speedup |" rule+="---|---|"
  done
  printf '%s\n%s\n' "$header" "$rule"
  copy=$(awk -F'\t' '/memcpy/ { print $3 / $2 }' "$scratch/ours")
  while IFS=$'\t' read -r name time mib; do
    row="| $name | $time | $(awk "BEGIN { if ($mib > 0) printf \"%.2f\", $mib / $time / $copy }") |"
    for i in "${!pythons[@]}"; do
      peer=$(awk -F'\t' -v name="$name" '$1 == name { print $2 }' "$scratch/peer$i")
      row+=" $peer | $([ -z "$peer" ] || awk "BEGIN { printf \"%.2f\", $peer / $time }") |"
    done
    echo "$row"
  done <"$scratch/ours"
  echo
done
