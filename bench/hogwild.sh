#!/usr/bin/env bash
# Compares the perplexity that several "Hogwild!" trainers reach (they share a parameter server and do not wait for each
# other) with that of one trainer that reads the same number of words. Prints a Markdown table:
#   bench/hogwild.sh build/release/examples/apps/language_model/language_model_app [EPOCHS [SEEDS [TRAINERS]]]
#   for example: ... 8 "1 2 3" "1 2 4"
# The text consists of the licences in Debian's package base-files (40,000 words); the last tenth of each is held out.
# The table has medians over the seeds of the held-out perplexity after the last epoch and in the best epoch. Exit
# status 1 if a median of several trainers is above 1.1 times that of one.
set -euo pipefail
program=${1:?usage: bench/hogwild.sh PROGRAM [epochs [seeds [trainers]]]}
epochs=${2:-8}
read -ra seeds <<<"${3:-1 2 3}"
read -ra counts <<<"${4:-1 2 4}"
flags=(--emsize 64 --nhid 64 --nlayers 1 --dropout 0.2 --lr 10 --clip 0.25 --batch-size 8 --bptt 16)
version=$(dpkg-query -W -f='${Version}' base-files 2>/dev/null) ||
  { echo "error: the text is part of Debian's package base-files, which is not installed" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/text"
licences=(Apache-2.0 Artistic BSD CC0-1.0 GFDL-1.2 GFDL-1.3 GPL-1 GPL-2 GPL-3 LGPL-2 LGPL-2.1 LGPL-3 MPL-1.1 MPL-2.0)
for licence in "${licences[@]}"; do
  file=/usr/share/common-licenses/$licence
  lines=$(wc -l <"$file")
  head -n $((lines - lines / 10)) "$file" >>"$scratch/text/train.txt"
  tail -n $((lines / 10)) "$file" >>"$scratch/text/valid.txt"
done
cp "$scratch/text/valid.txt" "$scratch/text/test.txt"  # required by the reader, but not used here

over() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }
median() { sort -g | awk '{ v[++n] = $1 } END { print v[int((n + 1) / 2)] }'; }
# perplexities FILE: prints the held-out perplexities, one epoch per line.
perplexities() { sed -n 's/.*Held out: .*Perplexity: //p' "$1"; }

processor=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)
echo "$processor, cores $(taskset -cp $$ | sed 's/.*: //'), $(date -u +%F)," \
  "base-files $version: $(cat "$scratch"/text/{train,valid}.txt | wc -w) words, $epochs epochs, seeds ${seeds[*]}"
echo
echo "| trainers | final perplexity | ratio to one trainer | best epoch's | ratio to one trainer |"
echo "|---|---|---|---|---|"
bad=0 of_one='' best_of_one=''
for count in "${counts[@]}"; do
  for seed in "${seeds[@]}"; do
    "$program" --data "$scratch/text" --world-size $((count + 1)) --epochs "$epochs" --seed "$seed" "${flags[@]}" \
      >"$scratch/out"
    perplexities "$scratch/out" | tail -n 1 >>"$scratch/last$count"
    perplexities "$scratch/out" | sort -g | head -n 1 >>"$scratch/best$count"
  done
  last=$(median <"$scratch/last$count") best=$(median <"$scratch/best$count")
  : "${of_one:=$last}" "${best_of_one:=$best}"
  printf '| %s | %s (%s) | %s | %s | %s |\n' "$count" "$last" "$(paste -sd' ' "$scratch/last$count")" \
    "$(over "$last" "$of_one")" "$best" "$(over "$best" "$best_of_one")"
  awk "BEGIN { exit !($last > 1.1 * $of_one) }" && bad=1
done
exit "$bad"
