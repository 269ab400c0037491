#!/usr/bin/env bash
# ResNet-50, a batch of 8 images of 128x128, on one thread and on two, beside PyTorch, in one run, as Markdown tables:
#   bench/resnet.sh build/release/bench/bench_resnet [threads...]
# Each time is the least of all rounds of three runs, which take turns. Every PyTorch that peers.sh finds takes part.
# "in oneDNN": the share of a run's time, a run of its own, that oneDNN's primitives say they took (DNNL_VERBOSE), but for
# putting operands in another order. 3x3 convolutions of stride 1 are ours, not among them.
set -euo pipefail
program=${1:?usage: bench/resnet.sh PROGRAM [threads...]}
shift
[ $# -gt 0 ] || set -- 1 2
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

least() { awk -F'\t' -v name="$1" '$1 == name && (best == "" || $2 < best) { best = $2 } END { print best }' "$2"; }

# primitives THREADS: "name<TAB>share" of the second of each phase's two runs, whose time the program prints behind it.
primitives() {
  DNNL_VERBOSE=1 "$program" --threads "$1" --rounds 1 | awk -v threads="$1" '
    /verbose,exec/ { n = split($0, field, ","); if (field[4] != "reorder") took[++count] = field[n] }
    /^(train|eval|eval, fused)\t/ {
      for (i = int(count / 2) + 1; i <= count; ++i) sum += took[i] / threads
      split($0, field, "\t")
      printf "%s\t%.2f\n", field[1], sum / field[2]
      count = sum = 0
    }'
}

for threads in "$@"; do
  rm -f "$scratch"/*
  for _ in 1 2 3; do
    "$program" --threads "$threads" >>"$scratch/ours"
    for i in "${!pythons[@]}"; do
      OMP_NUM_THREADS=$threads "${pythons[$i]}" "$here/pytorch/resnet.py" --threads "$threads" \
        >>"$scratch/peer$i" 2>"$scratch/errors" ||
        echo "PyTorch $(torch_version "${pythons[$i]}") failed: $(failure "$scratch/errors")"
    done
  done
  primitives "$threads" >"$scratch/primitives"
  header="| $threads thread(s), ms | Tendril | in oneDNN |" rule="|---|---|---|"
  for python in "${pythons[@]}"; do header+=" PyTorch $(torch_version "$python") | over Tendril's |" rule+="---|---|"; done
  printf '%s\n%s\n' "$header" "$rule"
  for name in "train" "train, peak MiB" "eval" "eval, fused"; do
    ours=$(least "$name" "$scratch/ours")
    row="| $name | $ours | $(awk -F'\t' -v name="$name" '$1 == name { print $2 }' "$scratch/primitives") |"
    for i in "${!pythons[@]}"; do
      peer=$(least "$name" "$scratch/peer$i")
      row+=" $peer | $([ -z "$peer" ] || awk "BEGIN { printf \"%.2f\", $peer / $ours }") |"
    done
    echo "$row"
  done
  echo
done
