#!/usr/bin/env bash
# Measures whether training waits for its data, and prints a Markdown table:
#   bench/loading.sh build/release/bench/bench_loading
set -euo pipefail
program=${1:?usage: bench/loading.sh PROGRAM}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "load average $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%F)"
echo
echo "| workers of the DataLoader | steps/s | stalled, % of the time |"
echo "|---|---|---|"
"$program" "$scratch" | awk -F'\t' '{ printf "| %s | %s | %s |\n", $1, $2, $3 }'
