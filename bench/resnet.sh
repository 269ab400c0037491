#!/usr/bin/env bash
# ResNet-50, a batch of 8 images of 128x128, on one thread and on two, beside PyTorch, in one run, as Markdown tables:
#   bench/resnet.sh build/release/bench/bench_resnet [threads...]
# Each time is the least of all rounds of three runs, which take turns. Every PyTorch that peers.sh finds takes part.
# "oneDNN alone": what its primitives say they took in another run (DNNL_VERBOSE), but for putting operands in another
# order, a thread; "share": of that run's time.
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

# primitives THREADS: "name<TAB>ms<TAB>share" of the second of each phase's two runs, whose time the program prints behind it.
primitives() {
  DNNL_VERBOSE=1 "$program" --threads "$1" --rounds 1 | awk -v threads="$1" '
    /verbose,exec/ { n = split($0, field, ","); if (field[4] != "reorder") took[++count] = field[n] }
    /^(train|eval|eval, fused)\t/ {
      for (i = int(count / 2) + 1; i <= count; ++i) sum += took[i] / threads
      split($0, field, "\t")
      printf "%s\t%.1f\t%.2f\n", field[1], sum, sum / field[2]
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
  header="| $threads thread(s), ms | Tendril | oneDNN alone | share |" rule="|---|---|---|---|"
  for python in "${pythons[@]}"; do header+=" PyTorch $(torch_version "$python") | over Tendril's |" rule+="---|---|"; done
  printf '%s\n%s\n' "$header" "$rule"
  for name in "train" "train, peak MiB" "eval" "eval, fused"; do
    ours=$(least "$name" "$scratch/ours")
    row="| $name | $ours | $(awk -F'\t' -v name="$name" '$1 == name { print $2 " | " $3; found = 1 } END { if (!found) print "|" }' "$scratch/primitives") |"
    for i in "${!pythons[@]}"; do
      peer=$(least "$name" "$scratch/peer$i")
      row+=" $peer | $([ -z "$peer" ] || awk "BEGIN { printf \"%.2f\", $peer / $ours }") |"
    done
    echo "$row"
  done
  echo
done
