#!/usr/bin/env bash
# Compares ResNet-50 (batches of 8 images of 128 x 128) with PyTorch, on one thread and on two, and prints Markdown
# tables:
#   bench/resnet.sh build/release/bench/bench_resnet [THREADS...]
# A run's time is the lowest of its five rounds; each row has the median and range of five runs, which alternate with
# PyTorch's. Runs every PyTorch that peers.sh finds.
# "in oneDNN": the share of the time spent in oneDNN's primitives, except reorders, in a separate run with DNNL_VERBOSE.
# 3x3 convolutions of stride 1 are not among them, because they use Tendril's own kernels.
set -euo pipefail
program=${1:?usage: bench/resnet.sh PROGRAM [threads...]}
shift
[ $# -gt 0 ] || set -- 1 2
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

# values NAME FILE: writes the values of that name to scratch/row.all, where median and spread expect them.
values() { awk -F'\t' -v name="$1" '$1 == name { print $2 }' "$2" >"$scratch/row.all"; }

# primitives THREADS: prints "name<TAB>share" for the second of each phase's two runs. The program prints a run's time
# after its primitives.
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
  for _ in 1 2 3 4 5; do
    "$program" --threads "$threads" >>"$scratch/ours"
    for i in "${!pythons[@]}"; do
      OMP_NUM_THREADS=$threads "${pythons[$i]}" "$here/pytorch/resnet.py" --threads "$threads" \
        >>"$scratch/peer$i" 2>"$scratch/errors" ||
        echo "PyTorch $(torch_version "${pythons[$i]}") failed: $(failure "$scratch/errors")"
    done
  done
  primitives "$threads" >"$scratch/primitives"
  header="| $threads thread(s), ms, median [range] | Tendril | in oneDNN |" rule="|---|---|---|"
  for python in "${pythons[@]}"; do header+=" PyTorch $(torch_version "$python") | speedup |" rule+="---|---|"; done
  printf '%s\n%s\n' "$header" "$rule"
  for name in "train" "train, peak MiB" "eval" "eval, fused"; do
    values "$name" "$scratch/ours"
    ours=$(median "$scratch/row")
    row="| $name | $(spread "$scratch/row") | $(awk -F'\t' -v name="$name" '$1 == name { print $2 }' "$scratch/primitives") |"
    for i in "${!pythons[@]}"; do
      values "$name" "$scratch/peer$i"
      peer=$(median "$scratch/row")
      row+=" ${peer:+$(spread "$scratch/row")} | $([ -z "$peer" ] || [[ $name = *MiB ]] || awk "BEGIN { printf \"%.2f\", $peer / $ours }") |"
    done
    echo "$row"
  done
  echo
done
