#!/usr/bin/env bash
# Compares the ResNet-50 pipeline with the same program in PyTorch RPC for several numbers of micro-batches, and prints
# a Markdown table:
#   bench/resnet50_pipeline.sh build/release/examples/apps/resnet50_pipeline/resnet50_pipeline_app [FLAGS]
#   FLAGS are passed to both programs, for example --tiny or --batches 1.
# images/s are measured during training. The programs alternate for each setting, so that changes in the machine's speed
# affect all of them. Every PyTorch that peers.sh finds runs with as many threads per worker as there are cores
# (Tendril's default) and with half as many, so that the workers' threads do not compete for cores.
set -euo pipefail
program=${1:?usage: bench/resnet50_pipeline.sh PROGRAM [flags]}
shift
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

speed() { sed -n 's/.* \([0-9.]*\) images\/s$/\1/p' "$1"; }
total() { sed -n 's/.*execution time = //p' "$1"; }

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $(taskset -cp $$ | sed 's/.*: //'), $(date -u +%F), flags: ${*:-none}"
echo
echo "| micro-batches | program | threads a worker | images/s | Tendril's over it | execution s |"
echo "|---|---|---|---|---|---|"
cores=$(nproc)
threads=("$cores")
[ "$cores" -lt 2 ] || threads+=($((cores / 2)))
for micro_batches in 1 2 4 8; do
  "$program" --micro-batches "$micro_batches" "$@" >"$scratch/ours"
  ours=$(speed "$scratch/ours")
  printf '| %s | Tendril | %s | %s | | %s |\n' "$micro_batches" "$cores" "$ours" "$(total "$scratch/ours")"
  for python in "${pythons[@]}"; do
    label="PyTorch $(torch_version "$python")"
    for count in "${threads[@]}"; do
      printf '| %s | %s | %s | ' "$micro_batches" "$label" "$count"
      "$python" "$here/pytorch/pipeline.py" --micro-batches "$micro_batches" --threads "$count" "$@" >"$scratch/peer" 2>"$scratch/errors" || true
      peer=$(speed "$scratch/peer")
      if [ -n "$peer" ]; then
        printf '%s | %s | %s |\n' "$peer" "$(awk "BEGIN { printf \"%.2f\", $ours / $peer }")" "$(total "$scratch/peer")"
      else
        printf 'failed: %s | | |\n' "$(failure "$scratch/peer" "$scratch/errors")"
      fi
    done
  done
done
