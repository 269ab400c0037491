#!/usr/bin/env bash
# Compares reading and writing tensor files with the system's own speed and, if a Python has them (TENDRIL_PYTHON or
# TENDRIL_PYTORCH may name one), with PyTorch and safetensors. Prints a Markdown table:
#   bench/files.sh build/release/bench/bench_files [FOLDER]
# The reads come from the page cache, because the file has just been written.
program=$(realpath "${1:?usage: bench/files.sh PROGRAM [FOLDER]}")
scratch=$(mktemp -d -p "$(realpath "${2:-${TMPDIR:-/tmp}}")")
source "$(dirname "$0")/../scripts/lib.sh"
trap 'rm -rf "$scratch"' EXIT

table() { awk -F'\t' 'NF == 1 { who = $1; next } { printf "| %s | %s | %s | %s |\n", who, $1, $2, $3 }'; }
echo "load average $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%F)"
echo
echo "| program | what | time | speed |"
echo "|---|---|---|---|"
{
  echo Tendril
  "$program" "$scratch"
  if python=$(find_python "torch safetensors"); then
    "$python" bench/pytorch/files.py "$scratch" 2>"$scratch/errors" || printf 'PyTorch failed: %s\n' "$(tail -n 1 "$scratch/errors")"
  fi
} | table
