#!/usr/bin/env bash
# Compares the losses of the pipeline on real images with the schedule 1f1b and with the tutorial's version (by-hand),
# and prints a Markdown table:
#   bench/pipeline_images.sh build/release/examples/apps/resnet50_pipeline/resnet50_pipeline_app [EPOCHS [FLAGS]]
# The images are the 60,000 of Fashion-MNIST (Debian: dataset-fashion-mnist), resized from 28 x 28 to 32 x 32; the
# network is --tiny. The table has the mean loss of each epoch's batches. Random guesses among the 10 classes have a
# loss of 2.30.
set -euo pipefail
program=${1:?usage: bench/pipeline_images.sh PROGRAM [epochs [flags]]}
epochs=${2:-3}
shift $(($# < 2 ? $# : 2))
packed=/usr/share/datasets/fashion-mnist
version=$(dpkg-query -W -f='${Version}' dataset-fashion-mnist 2>/dev/null) ||
  { echo "error: the images are part of Debian's package dataset-fashion-mnist, which is not installed" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for file in "$packed"/*.gz; do gunzip -c "$file" >"$scratch/$(basename "$file" .gz)"; done

batch=128
count=$((60000 / batch))  # batches per epoch
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
