#!/usr/bin/env bash
# What the pipeline learns of real images, by the schedule 1f1b and by the tutorial's form by hand, as a Markdown table:
#   bench/pipeline_images.sh build/release/examples/resnet50_pipeline/resnet50_pipeline [epochs [flags]]
# The images are Fashion-MNIST's 60,000 (Debian: dataset-fashion-mnist), 28x28 made 32x32; the network is --tiny. The
# mean loss of each epoch's batches, of 10 classes: who knows nothing has 2.30.
set -euo pipefail
program=${1:?usage: bench/pipeline_images.sh PROGRAM [epochs [flags]]}
epochs=${2:-3}
shift $(($# < 2 ? $# : 2))
packed=/usr/share/datasets/fashion-mnist
version=$(dpkg-query -W -f='${Version}' dataset-fashion-mnist 2>/dev/null) ||
  { echo "error: the images are of Debian's package dataset-fashion-mnist, which is not installed" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for file in "$packed"/*.gz; do gunzip -c "$file" >"$scratch/$(basename "$file" .gz)"; done

batch=128
count=$((60000 / batch))  # of an epoch
processor=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)
echo "$processor, cores $(taskset -cp $$ | sed 's/.*: //'), $(date -u +%F), dataset-fashion-mnist $version," \
  "batches of $batch in 4 micro-batches, flags: --tiny ${*:-}"
echo
echo "| form | mean loss of each epoch |"
echo "|---|---|"
for form in 1f1b by-hand; do
  "$program" --tiny --data "$scratch" --batch-size $batch --batches $((epochs * count)) --micro-batches 4 \
    --schedule $form "$@" >"$scratch/out"
  losses=$(sed -n 's/^  loss //p' "$scratch/out" |
    awk -v count=$count '{ sum += $1 } NR % count == 0 { printf "%s%.3f", sep, sum / count; sep = ", "; sum = 0 }')
  printf '| `--schedule %s` | %s |\n' $form "$losses"
done
