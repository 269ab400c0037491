#!/usr/bin/env bash
# The ResNet-50 pipeline for several numbers of micro-batches, beside the same program in PyTorch RPC, in one run, as a
# Markdown table:
#   bench/resnet50_pipeline.sh build/release/examples/resnet50_pipeline/resnet50_pipeline [python] [flags of both programs]
# e.g. ... python3 --tiny, or --batches 1. images/s are those of training; the ratio is ours over PyTorch's. The two programs take
# turns, setting by setting, so that a drift of the machine meets both.
set -euo pipefail
program=${1:?usage: bench/resnet50_pipeline.sh PROGRAM [python] [flags]}
python=${2:-python3}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

speed() { sed -n 's/.* \([0-9.]*\) images\/s$/\1/p' "$1"; }
total() { sed -n 's/.*execution time = //p' "$1"; }

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $(taskset -cp $$ | sed 's/.*: //'), flags: ${*:-none}"
echo
echo "| micro-batches | Tendril, images/s | PyTorch, images/s | ratio | Tendril, execution s | PyTorch, execution s |"
echo "|---|---|---|---|---|---|"
for micro_batches in 1 2 4 8; do
  "$program" --micro-batches "$micro_batches" "$@" >"$scratch/ours"
  "$python" "$here/pytorch/pipeline.py" --micro-batches "$micro_batches" "$@" >"$scratch/peer" 2>"$scratch/errors" || true
  ours=$(speed "$scratch/ours")
  peer=$(speed "$scratch/peer")
  if [ -n "$peer" ]; then
    printf '| %s | %s | %s | %s | %s | %s |\n' "$micro_batches" "$ours" "$peer" "$(awk "BEGIN { printf \"%.2f\", $ours / $peer }")" \
      "$(total "$scratch/ours")" "$(total "$scratch/peer")"
  else
    printf '| %s | %s | %s | | %s | |\n' "$micro_batches" "$ours" "$(tail -1 "$scratch/peer")" "$(total "$scratch/ours")"
  fi
done
