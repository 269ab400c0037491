#!/usr/bin/env bash
# Compares the ResNet-50 pipeline with the same program in PyTorch RPC for several numbers of micro-batches, and prints
# a Markdown table:
#   bench/resnet50_pipeline.sh build/release/examples/apps/resnet50_pipeline/resnet50_pipeline_app [RUNS [FLAGS]]
#   FLAGS are passed to both programs, for example --tiny or --batches 10. With a single batch, the time depends on how
#   fast the system allocates memory.
# Each row has the median and range of RUNS runs (default 5) of images/s during training. The programs alternate, so
# that changes in the machine's speed affect all of them. Every PyTorch that peers.sh finds runs with as many threads
# per worker as there are cores (Tendril's default) and with half as many, so that the workers' threads do not compete
# for cores.
set -euo pipefail
program=${1:?usage: bench/resnet50_pipeline.sh PROGRAM [runs [flags]]}
runs=${2:-5}
shift $(($# < 2 ? $# : 2))
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
check_runs "$runs"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

# speed COMMAND...: runs a program and prints its images/s in the format that measure reads.
speed() { "$@" | sed -n 's/.* \([0-9.]*\) images\/s$/images\/s \1/p'; }
row() {  # micro-batches, label, threads, output file, ratio
  if [ -e "$4.failed" ]; then
    printf '| %s | %s | %s | failed: %s | |\n' "$1" "$2" "$3" "$(failure "$4" "$4.errors")"
  else
    printf '| %s | %s | %s | %s | %s |\n' "$1" "$2" "$3" "$(spread "$4")" "${5:-}"
  fi
}

echo "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), cores $(taskset -cp $$ | sed 's/.*: //'), $(date -u +%F), $runs runs, flags: ${*:-none}"
echo
echo "| micro-batches | program | threads per worker | images/s, median [range] | speedup |"
echo "|---|---|---|---|---|"
cores=$(nproc)
threads=("$cores")
[ "$cores" -lt 2 ] || threads+=($((cores / 2)))
for micro_batches in 1 2 4 8; do
  rm -f "$scratch"/*
  for ((run = 0; run < runs; ++run)); do
    measure "$scratch/ours" 'images\/s' speed "$program" --micro-batches "$micro_batches" "$@"
    for i in "${!pythons[@]}"; do
      for count in "${threads[@]}"; do
        measure "$scratch/peer$i.$count" 'images\/s' \
          speed "${pythons[$i]}" "$here/pytorch/pipeline.py" --micro-batches "$micro_batches" --threads "$count" "$@"
      done
    done
  done
  check_ours "$scratch/ours"
  row "$micro_batches" Tendril "$cores" "$scratch/ours"
  for i in "${!pythons[@]}"; do
    for count in "${threads[@]}"; do
      peer=$(median "$scratch/peer$i.$count")
      row "$micro_batches" "PyTorch $(torch_version "${pythons[$i]}")" "$count" "$scratch/peer$i.$count" \
        "${peer:+$(awk "BEGIN { printf \"%.2f\", $(median "$scratch/ours") / $peer }")}"
    done
  done
done
