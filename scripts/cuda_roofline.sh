#!/usr/bin/env bash
# Estimates the best time of each row of bench/tensor on an H100 from bench/cuda/roofline.tsv, without a device:
#   scripts/cuda_roofline.sh [PAGE]    rewrites the table between the marks in PAGE
# The time is bytes divided by bandwidth or operations divided by their peak rate, whichever is longer, plus 3 us per
# launch. Fails if bench/tensor/large.cpp has a row that is not in the table.
# Peaks of an H100 SXM5 80 GB, from NVIDIA's data sheet ("NVIDIA H100 Tensor Core GPU Datasheet", without sparsity):
# 3.35 TB/s; float32 67, TF32 494.5 and bfloat16 989 TFLOP/s. 3 us is an estimate of a kernel's start in an empty
# stream, based on profilers' figures; it has not been measured yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
page=${1:-} table=bench/cuda/roofline.tsv
[ -z "$page" ] || grep -q '<!-- scripts/cuda_roofline.sh -->' "$page" || { echo "error: $page has no mark for the table" >&2; exit 2; }

bad=0
while IFS= read -r name; do
  grep -qF "$name"$'\t' "$table" || { echo "error: bench/tensor/large.cpp has the row '$name', but $table does not" >&2; bad=1; }
done < <(grep -oE '(measure\(|causal \? |: )"[a-zA-Z0-9][^"]*[a-z0-9)][^"]*"' bench/tensor/large.cpp | sed -E 's/^[^"]*"//; s/"$//' | grep -v 'a plain loop')
[ "$bad" -eq 0 ] || exit 1

rows=$(while IFS=$'\t' read -r name bytes operations limit launches; do
  [[ -n $name && $name != '#'* ]] || continue
  printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$((bytes))" "$((operations))" "$limit" "$launches"
done <"$table" | awk -F '\t' '
  BEGIN { peak["fp32"] = 67e12; peak["tf32"] = 494.5e12; peak["bf16"] = 989e12 }
  {
    moving = $2 / 3.35e12 * 1e6; computing = $3 / peak[$4] * 1e6; starting = 3 * $5
    longer = moving > computing ? moving : computing
    by = starting > longer ? "launches" : moving > computing ? "memory" : $4
    printf "| %s | %.1f | %.2f | %d | %.1f | %.1f | %.1f | %s |\n", $1, $2 / 1048576, $3 / 1e9, $5, moving, computing, longer + starting, by
  }')
head='| row | MiB | GFLOP | launches | us to move them | us to compute | us in all | limit |
|---|---|---|---|---|---|---|---|'
if [ -n "$page" ]; then
  written=$(awk -v table="$head"$'\n'"$rows" '
    /<!-- scripts\/cuda_roofline.sh -->/ { print; print ""; print table; print ""; skipping = 1; next }
    /<!-- end -->/ { skipping = 0 }
    !skipping' "$page")
  printf '%s\n' "$written" >"$page"
else
  printf '%s\n%s\n' "$head" "$rows"
fi
